"""Random tables: their columns, rows, indexes, and what is deleted and changed before they are asked."""

import datetime

from fuzzing.tree import DUCK, Dialect, Node, text_of

# A column type and the kind of its values. Queries are made of kinds: values of one kind compare with each other.
# TIMESTAMPTZ, INTERVAL, lists and structs are left out, since the engines print them differently; so are decimals over 38 digits.
KINDS = {
    "TINYINT": "int", "SMALLINT": "int", "INT": "int", "BIGINT": "int",
    "TINYINT UNSIGNED": "int", "SMALLINT UNSIGNED": "int", "INT UNSIGNED": "int", "BIGINT UNSIGNED": "int",
    "DECIMAL(9,2)": "decimal", "DECIMAL(18,4)": "decimal", "DECIMAL(38,2)": "decimal", "DECIMAL(38,10)": "decimal",
    "DOUBLE": "float", "REAL": "float", "VARCHAR": "text", "BYTEA": "bytes", "BOOLEAN": "bool",
    "DATE": "date", "TIME": "time", "TIMESTAMP(0)": "timestamp", "TIMESTAMP(3)": "timestamp", "TIMESTAMP(6)": "timestamp",
}
COMMON_TYPES = ["INT", "INT", "BIGINT", "VARCHAR", "VARCHAR", "DATE", "DOUBLE", "DECIMAL(9,2)", "BOOLEAN"]
SPELT_OTHERWISE = {
    "TINYINT UNSIGNED": "UTINYINT", "SMALLINT UNSIGNED": "USMALLINT", "INT UNSIGNED": "UINTEGER", "BIGINT UNSIGNED": "UBIGINT",
    "TIMESTAMP(0)": "TIMESTAMP_S", "TIMESTAMP(3)": "TIMESTAMP_MS", "TIMESTAMP(6)": "TIMESTAMP", "BYTEA": "BLOB",
}
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
TEXTS = ["a", "b", "ab", "", "Ab", "zz", "z%", "a_b", "ünï", "日本語", "längerer text mit mehr als zwölf bytes", "prefix-shared-0001",
         "prefix-shared-0002", "prefix-shared-0002x", "😀", "NULL", " x ", "0", "1", "A" * 40]
FLOATS = ["CAST('NaN' AS DOUBLE)", "CAST('-0.0' AS DOUBLE)", "CAST('inf' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "0.0", "1.5e0", "1e10"]


def type_name(name):
    return Dialect(name, SPELT_OTHERWISE.get(name, name))


def integer_range(name):
    bits = BITS[name.split()[0]]
    return (0, 2**bits - 1) if "UNSIGNED" in name else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


class Table:
    def __init__(self, name, columns, key):
        self.name, self.columns, self.key = name, columns, key
        self.dropped = set()

    def kept(self, values):
        """Of one value per column, those of the columns that are left."""
        return [value for (column, _), value in zip(self.columns, values) if column not in self.dropped]

    def text(self, engine):
        columns = [f"{name} {type_name(of).text(engine)}{' PRIMARY KEY' if name == self.key else ''}" for name, of in self.columns]
        return f"CREATE TABLE {self.name} ({', '.join(self.kept(columns))})"


class Statement:
    """A statement of the set-up other than CREATE TABLE: a tree, or rows to insert, or as many made from a series."""

    def __init__(self, table, tree=None, rows=None, series=None, count=0, only_ours=False):
        self.table, self.tree, self.rows, self.series, self.count, self.only_ours = table, tree, rows, series, count, only_ours

    def text(self, engine):
        if self.only_ours and engine == DUCK:
            return ""
        if self.tree:
            return self.tree.text(engine)
        if self.series:
            values = ", ".join(text_of(value, engine) for value in self.table.kept(self.series))
            return f"INSERT INTO {self.table.name} SELECT {values} FROM generate_series(1, {self.count}) g(v)" if self.count else ""
        rows = ["(" + ", ".join(text_of(value, engine) for value in self.table.kept(row)) + ")" for row in self.rows]
        return f"INSERT INTO {self.table.name} VALUES {', '.join(rows)}" if rows else ""


class Setup:
    """The statements before the queries of one case."""

    def __init__(self, tables, statements):
        self.tables, self.statements = tables, statements

    def texts(self, engine):
        texts = [table.text(engine) for table in self.tables] + [statement.text(engine) for statement in self.statements]
        return [text for text in texts if text]


class Values:
    """Random values; `domain` says how many different ones there are about, so that joins and groups meet."""

    def __init__(self, random):
        # The ends of a type are worth a try, and make most sums overflow: some cases have them.
        self.random, self.extremes = random, random.random() < 0.3

    def of_type(self, name, domain, null_share=0.0):
        if self.random.random() < null_share:
            return "NULL"
        kind = KINDS[name]
        if kind == "int":
            return self.integer(name, domain)
        if kind == "decimal" and self.extremes and self.random.random() < 0.04:
            digits, scale = map(int, name[8:-1].split(","))
            return self.random.choice(["", "-"]) + "9" * (digits - scale) + "." + "9" * scale
        return self.of_kind(kind, domain)

    def integer(self, name, domain):
        least, most = integer_range(name)
        if self.extremes and self.random.random() < 0.05:
            # The least BIGINT cannot be written as a literal, since the sign is an operator.
            return str(self.random.choice([max(least, 1 - 2**63), most, most // 2 + 1]))
        return str(max(least, min(most, self.random.randint(-3, domain))))

    def of_kind(self, kind, domain):
        random = self.random
        number = random.randint(-3, domain)
        if kind == "int":
            return str(number)
        if kind == "decimal":
            return str(number) + random.choice(["", ".5", ".25"])
        if kind == "float":
            return random.choice(FLOATS) if random.random() < 0.25 else f"CAST('{number}{random.choice(['', '.5'])}' AS DOUBLE)"
        if kind == "text":
            return "'" + (random.choice(TEXTS) if random.random() < 0.6 else random.choice(["k", "key-with-a-long-prefix-"]) + str(number)) + "'"
        if kind == "bytes":
            digits = random.choice(["", "00", "00ff", "61", f"{abs(number):08x}", "00" * 13])
            return Dialect(f"X'{digits}'", f"from_hex('{digits}')")
        if kind == "bool":
            return random.choice(["true", "false"])
        # TIMESTAMP literals count nanoseconds, so the year 2262 is their last one.
        day = datetime.date(2020, 1, 1) + datetime.timedelta(days=random.choice([number, number, number * 60]))
        clock = random.choice(["00:00:00", "00:00:00", "12:30:01", f"{abs(number) % 24:02}:59:59"])
        return {"date": f"DATE '{day}'", "time": f"TIME '{clock}'", "timestamp": f"TIMESTAMP '{day} {clock}'"}[kind]

    def from_series(self, name, rows):
        """An expression over `v`, which counts the rows."""
        random, kind = self.random, KINDS[name]
        domain = random.choice([3, 100, 1000, max(1, rows // 3), 10 * rows])
        most = integer_range(name)[1] if kind == "int" else 10**9
        number = f"((v * {random.randint(1, 997)} + {random.randint(0, 100)}) % {min(domain, most)})"
        remainder = f"({number} % 4)"
        made = {
            "int": f"CAST({number} AS {{}})",
            "decimal": f"CAST(CAST({number} % 9999 AS DECIMAL(9,2)) * 0.25 AS {{}})",
            "float": f"CAST(CAST({number} AS DOUBLE) * 0.5e0 AS {{}})",
            "text": random.choice([f"CAST({number} AS VARCHAR)", f"'some-longer-prefix-' || CAST({number} AS VARCHAR)"]),
            "bytes": f"CAST(CAST({number} AS VARCHAR) AS {{}})",
            "bool": f"({number} % 2 = 0)",
            "date": f"CASE {remainder} WHEN 0 THEN DATE '2020-01-01' WHEN 1 THEN DATE '2020-02-29' ELSE DATE '1900-01-01' END",
            "time": f"CASE {remainder} WHEN 0 THEN TIME '00:00:00' WHEN 1 THEN TIME '23:59:59' ELSE TIME '12:00:00' END",
            "timestamp": f"CASE {remainder} WHEN 0 THEN TIMESTAMP '2020-01-01 00:00:00' ELSE TIMESTAMP '1969-12-31 07:08:09' END",
        }[kind]
        if random.random() < 0.4:
            made = f"CASE WHEN v % {random.choice([2, 3, 10])} = 0 THEN NULL ELSE {made} END"
        return Node(None, made, type_name(name)) if "{}" in made else made


class Maker:
    """Makes the tables of a case."""

    def __init__(self, random, rows_max, indexes):
        self.random, self.rows_max, self.indexes, self.values = random, rows_max, indexes, Values(random)

    def setup(self):
        tables = [self.table(f"t{number}") for number in range(self.random.randint(2, 4))]
        return Setup(tables, [statement for table in tables for statement in self.history(table)])

    def table(self, name):
        random = self.random
        types = [random.choice(COMMON_TYPES if random.random() < 0.5 else list(KINDS)) for _ in range(random.randint(2, 6))]
        columns = [("k", random.choice(["INT", "BIGINT", "BIGINT", "INT UNSIGNED", "VARCHAR"]))]
        columns += [(f"c{number}", of) for number, of in enumerate(types)]
        return Table(name, columns, "k" if random.random() < 0.35 else None)

    def history(self, table):
        """INSERTs (each makes a segment), writes in between, indexes at any time."""
        random, statements = self.random, []
        used = set()
        if random.random() < 0.3:
            statements.append(self.series(table))
            used.update(range(statements[0].count + 1))
        domain, nulls = random.choice([3, 10, 25, 100, 1000]), random.choice([0, 0.1, 0.1, 0.3, 0.8])
        rows = min(self.rows_max, random.choice([0, 1, 5, 20, 40, 100]))
        while rows > 0:
            some = min(rows, random.choice([1, 2, 5, 20, 100]))
            statements.append(Statement(table, rows=[self.row(table, domain, nulls, used) for _ in range(some)]))
            rows -= some
            if random.random() < 0.25:
                statements.append(Statement(table, tree=self.change(table, domain)))
        if self.indexes:
            for name, _ in random.sample(table.columns, random.randint(0, 2)):
                tree = Node(None, f"CREATE INDEX {table.name}_{name} ON {table.name} ({name})")
                statements.insert(random.randint(0, len(statements)), Statement(table, tree=tree, only_ours=True))
        return statements

    def series(self, table):
        count = min(self.rows_max, self.random.choice([1000, 3000, 10000, 30000, 70000]))
        made = [self.values.from_series(of, count) for _, of in table.columns]
        if table.key:
            made[0] = Node(None, "CAST(v AS {})", type_name(table.columns[0][1]))
        return Statement(table, series=made, count=count)

    def row(self, table, domain, nulls, used):
        row = [self.values.of_type(of, domain, nulls) for _, of in table.columns]
        if table.key:
            # Distinct by construction, as a statement that breaks the key would end the set-up.
            number = self.random.choice([n for n in [self.random.randint(0, 3 * domain + 200)] if n not in used] or [max(used) + 1])
            used.add(number)
            row[0] = f"'{number}'" if table.columns[0][1] == "VARCHAR" else str(number)
        return row

    def change(self, table, domain):
        """A DELETE or an UPDATE, which leaves the key alone."""
        column, of = self.random.choice(table.columns)
        comparison = self.random.choice(["=", "=", "<", ">", "IS DISTINCT FROM"] if of != "BOOLEAN" else ["=", "IS DISTINCT FROM"])
        where = (column, comparison, self.values.of_kind(KINDS[of], domain))
        if self.random.random() < 0.5:
            return Node(None, "DELETE FROM " + table.name + " WHERE {} {} {}", *where)
        target, of = self.random.choice(table.columns[1:])
        value = self.values.of_type(of, domain, 0.3)
        return Node(None, "UPDATE " + table.name + " SET {} = {} WHERE {} {} {}", target, value, *where)
