"""Random queries over the tables of a case.

Only queries with one right answer are made: LIMIT and DISTINCT ON stand under an ORDER BY of all columns, window frames under one of all columns
of their input (or of one, where they end at peers), aggregates with an order under one of their values, and sums and averages of floats are shown,
never compared or grouped, since their last digits depend on the order of rows."""

from fuzzing.data import KINDS, Values
from fuzzing.tree import Dialect, Items, Node

COMPARISONS = ["=", "=", "=", "<", ">", "<=", ">=", "<>"]
PATTERNS = ["a%", "%b%", "%", "", "_", "a_b", "%prefix%", "prefix-shared%2", "%x", "日%", "k_%"]
# Kinds that may be compared with one another.
RELATED = {"int": ["int", "decimal", "float"], "decimal": ["int", "decimal", "float"], "date": ["date", "timestamp"]}
APPROXIMATE = "approximate"
JOINS = ["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


class Column:
    def __init__(self, name, kind):
        self.name, self.kind = name, kind

    def node(self):
        return Node(self.kind, "{}", self.name)


class Queries:
    def __init__(self, random, tables):
        self.random, self.tables, self.values = random, tables, Values(random)
        self.names = self.subqueries = 0
        self.views = []

    # Small helpers.

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *options):
        return self.random.choice(options)

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def kinds(self, columns):
        return sorted({column.kind for column in columns})

    def column(self, columns, kind):
        fitting = [column for column in columns if column.kind == kind]
        return self.random.choice(fitting).node() if fitting else None

    def literal(self, kind):
        return Node(kind, "{}", self.values.of_kind(kind, 20))

    # Expressions.

    def value(self, columns, kind, depth=2):
        column = self.column(columns, kind)
        if column and (depth <= 0 or self.chance(0.5)):
            return column
        if depth <= 0 or self.chance(0.12):
            return self.literal(kind)
        below = lambda of=kind: self.value(columns, of, depth - 1)
        shape = self.random.random()
        if shape < 0.1:
            return Node(kind, "CASE WHEN {} THEN {} ELSE {} END", self.condition(columns, depth - 1), below(), below())
        if shape < 0.13:
            return Node(kind, "CASE WHEN {} THEN {} END", self.condition(columns, depth - 1), below())
        if shape < 0.2:
            return Node(kind, "COALESCE({}, {})", below(), below())
        if shape < 0.24:
            return Node(kind, "NULLIF({}, {})", below(), below())
        return self.operation(columns, kind, depth, below)

    def operation(self, columns, kind, depth, below):
        if kind == "bool":
            return self.condition(columns, depth - 1)
        option = {
            "int": self.integer_operation, "decimal": self.decimal_operation, "float": self.float_operation, "text": self.text_operation,
        }.get(kind)
        if option:
            return option(below)
        if kind == "date" and self.chance(0.4):
            return Node(kind, "CAST({} AS DATE)", below("timestamp"))
        if kind == "timestamp" and self.chance(0.4):
            unit = self.pick("month", "day", "hour", "year")
            return self.pick(Node(kind, "CAST({} AS {})", below("date"), Dialect("TIMESTAMP(6)", "TIMESTAMP")),
                             Node(kind, f"date_trunc('{unit}', {{}})", below()))
        return below()

    def integer_operation(self, below):
        literal = self.literal("int")
        part = self.pick("year", "month", "day")
        return self.pick(
            lambda: Node("int", f"({{}} {self.pick('+', '-', '*')} {{}})", below(), literal),
            lambda: Node("int", f"({{}} {self.pick('+', '-')} {{}})", below(), below()),
            lambda: Node("int", f"({{}} % {self.pick('3', '7', '10', '-4')})", below()),
            # Integer division is `//` in DuckDB, whose `/` gives DOUBLE.
            lambda: Node("int", f"({{}} {{}} {self.pick('2', '3', '-7')})", below(), Dialect("/", "//")),
            lambda: Node("int", f"CAST(extract({part} FROM {{}}) AS BIGINT)", below(self.pick("date", "timestamp"))),
            lambda: Node("int", "CAST(length({}) AS BIGINT)", below("text")),
            lambda: Node("int", "abs({})", below()),
            lambda: Node("int", f"CAST({{}} AS {self.pick('BIGINT', 'INT', 'SMALLINT')})", below()),
            lambda: Node("int", "(-CAST({} AS BIGINT))", below()),
            lambda: Node("int", "({} - {})", below("date"), below("date")),
        )()

    def decimal_operation(self, below):
        return self.pick(
            lambda: Node("decimal", f"({{}} {self.pick('+', '-')} {{}})", below(), below(self.pick("decimal", "int"))),
            lambda: Node("decimal", f"({{}} * {self.pick('2', '0.5', '1.10')})", below()),
            lambda: Node("decimal", f"CAST({{}} AS DECIMAL({self.pick('12,2', '20,0', '38,4')}))", below("int")),
            lambda: below(),
        )()

    def float_operation(self, below):
        return self.pick(
            lambda: Node("float", f"({{}} {self.pick('+', '-', '*')} {{}})", below(), below()),
            lambda: Node("float", "CAST({} AS DOUBLE)", below(self.pick("int", "decimal"))),
            lambda: Node("float", "(-{})", below()),
            lambda: below(),
        )()

    def text_operation(self, below):
        start, length = self.pick("1", "2", "3"), self.pick("1", "2", "5")
        return self.pick(
            lambda: Node("text", "({} || {})", below(), below()),
            lambda: Node("text", f"substring({{}}, {start}, {length})", below()),
            lambda: Node("text", f"{self.pick('upper', 'lower', 'trim')}({{}})", below()),
            lambda: Node("text", "CAST({} AS VARCHAR)", below(self.pick("int", "date"))),
            lambda: Node("text", "replace({}, 'a', 'bb')", below()),
            lambda: below(),
        )()

    # Conditions.

    def condition(self, columns, depth=2):
        if depth > 0 and self.chance(0.25):
            return Node("bool", f"({{}} {self.pick('AND', 'OR')} {{}})", self.condition(columns, depth - 1), self.condition(columns, depth - 1))
        if depth > 0 and self.chance(0.06):
            return Node("bool", "(NOT {})", self.condition(columns, depth - 1))
        kind = self.random.choice([column.kind for column in columns if column.kind != APPROXIMATE] or ["int"])
        value, negation = self.value(columns, kind, depth - 1), self.pick("", "NOT ")
        shape = self.random.random()
        if shape < 0.1:
            return Node("bool", f"({{}} IS {negation}NULL)", value)
        if shape < 0.2:
            return Node("bool", f"({{}} IS {negation}DISTINCT FROM {{}})", value, self.value(columns, kind, depth - 1))
        if kind == "bool":
            return Node("bool", f"({{}} IS {negation}{self.pick('TRUE', 'FALSE')})", value) if self.chance(0.5) else value
        if shape < 0.32:
            literals = [self.literal(kind) for _ in range(self.random.randint(1, 4))] + ([Node(kind, "NULL")] if self.chance(0.1) else [])
            return Node("bool", f"({{}} {negation}IN ({{}}))", value, Items(literals))
        if shape < 0.42:
            return Node("bool", f"({{}} {negation}BETWEEN {{}} AND {{}})", value, self.literal(kind), self.value(columns, kind, 0))
        if kind == "text" and shape < 0.6:
            return Node("bool", f"({{}} {negation}LIKE '{self.random.choice(PATTERNS)}')", value)
        other = self.random.choice(RELATED.get(kind, [kind])) if self.chance(0.15) else kind
        return Node("bool", f"({{}} {self.random.choice(COMPARISONS)} {{}})", value, self.value(columns, other, depth - 1))

    def look_up(self, columns):
        """A bare column beside literals, which an index can answer."""
        exact = [column for column in columns if column.kind not in (APPROXIMATE, "bool")]
        if not exact:
            return self.condition(columns)
        column = self.random.choice(exact)
        literals = [self.literal(column.kind) for _ in range(self.random.randint(1, 3))]
        return self.pick(
            Node("bool", f"({{}} {self.random.choice(COMPARISONS)} {{}})", column.node(), literals[0]),
            Node("bool", "({} IN ({}))", column.node(), Items(literals)),
            Node("bool", "({} BETWEEN {} AND {})", column.node(), literals[0], literals[-1]),
        )

    def join_condition(self, left, right):
        shared = sorted(set(self.kinds(left)) & set(self.kinds(right)) - {APPROXIMATE})
        if not shared:
            return Node("bool", "true")
        parts = []
        for _ in range(self.pick(1, 1, 1, 2, 2, 3)):
            kind = "int" if "int" in shared and self.chance(0.6) else self.random.choice(shared)
            depth = 1 if self.chance(0.12) else 0
            sides = [self.value(left, kind, depth), self.value(right, kind, depth)]
            self.random.shuffle(sides)
            operator = self.pick("<", ">", "<=", "<>", "IS NOT DISTINCT FROM") if self.chance(0.15) else "="
            parts.append(Node("bool", f"{{}} {operator} {{}}", *sides))
        if self.chance(0.15):
            parts.append(self.condition(left + right, 1))
        return Items(parts, " AND ")

    # Sources and subqueries.

    def table(self, letter="a"):
        table, alias = self.random.choice(self.tables), self.name(letter)
        return Node(None, "{} {}", table.name, alias), [Column(f"{alias}.{name}", KINDS[of]) for name, of in table.columns]

    def source(self, depth):
        if self.views and self.chance(0.35):
            (view, columns), alias = self.random.choice(self.views), self.name("a")
            return Node(None, "{} {}", view, alias), [Column(f"{alias}.{column.name}", column.kind) for column in columns]
        if depth > 0 and self.chance(0.3):
            (query, columns), alias = self.select(depth - 1), self.name("a")
            return Node(None, "({}) {}", query, alias), [Column(f"{alias}.{column.name}", column.kind) for column in columns]
        return self.table()

    def joined(self, depth, sources):
        source, columns = self.source(depth)
        joins = []
        for _ in range(sources - 1):
            other, more = self.source(depth - 1)
            if self.chance(0.1):
                joins.append(Node(None, " CROSS JOIN {}", other))
            else:
                joins.append(Node(None, f" {self.random.choice(JOINS)} {{}} ON {{}}", other, self.join_condition(columns, more)))
            columns = columns + more
        return Node(None, "{}{}", source, Items(joins, "")), columns

    def scalar(self, columns, kind):
        source, inner = self.table("s")
        conditions = [self.condition(inner, 1)] if self.chance(0.3) else []
        if self.chance(0.5):
            conditions.append(self.join_condition(columns, inner))
        where = Items(conditions, " AND ", " WHERE ")
        if kind == "int" and self.chance(0.4):
            return Node(kind, "(SELECT count(*) FROM {}{})", source, where)
        function = self.pick("bool_and", "bool_or") if kind == "bool" else self.pick("min", "max")
        return Node(kind, f"(SELECT {function}({{}}) FROM {{}}{{}})", self.value(inner, kind, 1), source, where)

    def quantified(self, columns):
        """A comparison with ANY or ALL of a subquery; its table often has the name that one outside has."""
        table, alias = self.random.choice(self.tables), self.name("s")
        if self.chance(0.6):
            alias = self.random.choice(columns).name.partition(".")[0]
        bare = alias == table.name or self.chance(0.3)
        inner = [Column(name if bare else f"{alias}.{name}", KINDS[of]) for name, of in table.columns]
        shared = sorted(set(self.kinds(columns)) & set(self.kinds(inner)) - {APPROXIMATE})
        if not shared:
            return self.condition(columns)
        kind = self.random.choice(shared)
        where = Items([self.condition(inner, 1)] if self.chance(0.5) else [], "", " WHERE ")
        return Node("bool", f"({{}} {self.random.choice(COMPARISONS)} {self.pick('ANY', 'ALL')} (SELECT {{}} FROM {table.name} {alias}{{}}))",
                    self.value(columns, kind, 1), self.column(inner, kind), where)

    def subquery_condition(self, columns):
        if self.chance(0.25):
            return self.quantified(columns)
        source, inner = self.table("s")
        if self.chance(0.15):
            other, more = self.table("s")
            source = Node(None, f"{{}} {self.pick('JOIN', 'LEFT JOIN')} {{}} ON {{}}", source, other, self.join_condition(inner, more))
            inner = inner + more
        conditions = [self.condition(inner, 1)] if self.chance(0.4) else []
        shared = sorted(set(self.kinds(columns)) & set(self.kinds(inner)))
        if self.chance(0.4) or not shared:
            conditions.append(self.join_condition(columns, inner))
            return Node("bool", f"{self.pick('', 'NOT ')}EXISTS (SELECT {self.pick('1', '*')} FROM {{}}{{}})", source,
                        Items(conditions, " AND ", " WHERE "))
        kind = self.random.choice(shared)
        if self.chance(0.6):
            if self.chance(0.15):
                conditions.append(self.join_condition(columns, inner))
            return Node("bool", f"{{}} {self.pick('', 'NOT ')}IN (SELECT {{}} FROM {{}}{{}})", self.value(columns, kind, 1),
                        self.value(inner, kind, 1), source, Items(conditions, " AND ", " WHERE "))
        return Node("bool", f"{{}} {self.random.choice(COMPARISONS)} {{}}", self.value(columns, kind, 1), self.scalar(columns, kind))

    # SELECT.

    def ordered_aggregate(self, columns, exact):
        """An aggregate that reads its values in an order, or by their ranks."""
        way = f"{self.pick('ASC', 'DESC')} NULLS {self.pick('FIRST', 'LAST')}"
        text, kind = self.column(columns, "text"), self.pick(*[k for k in self.kinds(columns) if k not in (APPROXIMATE, "float")] or ["int"])
        value = self.column(columns, kind) or self.column(columns, columns[0].kind)
        kind = value.kind
        options = [lambda: Node(kind, f"(array_agg({{0}} ORDER BY {{0}} {way}))[{self.pick('1', '2')}]", value)]
        if text:
            options.append(lambda: Node("text", f"string_agg({{0}}, '|' ORDER BY {{0}} {way})", text))
        number = self.column(columns, "int")
        if number:
            share = self.pick("0", "0.25", "0.5", "0.9", "1")
            options.append(lambda: Node("int", f"percentile_disc({share}) WITHIN GROUP (ORDER BY {{}})", number))
            if not exact:
                options.append(lambda: Node(APPROXIMATE, f"percentile_cont({share}) WITHIN GROUP (ORDER BY {{}})", number))
                options.append(lambda: Node(APPROXIMATE, "median({})", number))
        return self.random.choice(options)()

    def aggregate(self, columns, exact):
        if self.chance(0.1):
            return self.ordered_aggregate(columns, exact)
        only = [self.condition(columns, 1)] if self.chance(0.2) else []
        kind = self.random.choice([k for k in self.kinds(columns) if k != APPROXIMATE] or ["int"])
        distinct, shape = self.pick("", "", "DISTINCT "), self.random.random()
        if shape < 0.15:
            call, of = Node(None, "count(*)"), "int"
        elif shape < 0.3:
            call, of = Node(None, f"count({distinct}{{}})", self.value(columns, kind, 1)), "int"
        elif shape < 0.5:
            kind = self.pick("int", "int", "decimal") if exact else self.pick("int", "decimal", "float")
            call, of = Node(None, f"sum({distinct}{{}})", self.value(columns, kind, 1)), APPROXIMATE if kind == "float" else kind
        elif shape < 0.65 and not exact:
            function = self.pick("avg", "avg", "avg", "stddev", "var_pop", "stddev_pop", "var_samp")
            kind = self.pick("int", "decimal", "float") if function == "avg" else "int"
            call, of = Node(None, f"{function}({distinct if function == 'avg' else ''}{{}})", self.value(columns, kind, 1)), APPROXIMATE
        elif kind == "bool":
            call, of = Node(None, f"{self.pick('bool_and', 'bool_or')}({{}})", self.value(columns, kind, 1)), kind
        else:
            call, of = Node(None, f"{self.pick('min', 'max')}({{}})", self.value(columns, kind, 1)), kind
        return Node(of, "{}{}", call, Items(only, "", " FILTER (WHERE ", ")"))

    def grouped(self, columns, exact):
        """Select items, GROUP BY and HAVING."""
        kinds, keys = [k for k in self.kinds(columns) if k != APPROXIMATE] or ["int"], []
        for _ in range(self.pick(0, 1, 1, 1, 2, 2, 3, 4)):
            kind = self.random.choice(kinds)
            # A key without a column in it could be read as the position of a select item.
            keys.append(Node(kind, "COALESCE({}, {})", self.column(columns, kind) or self.literal(kind), self.value(columns, kind, 1))
                        if self.chance(0.25) else self.column(columns, kind) or Node(kind, "NULLIF({0}, {0})", self.literal(kind)))
        items = keys + [self.aggregate(columns, exact) for _ in range(self.pick(0, 1, 1, 2, 3) if keys else self.pick(1, 2, 3))]
        having = []
        if keys and self.chance(0.25):
            having.append(self.pick(Node("bool", f"count(*) {self.pick('>', '<', '>=', '=')} {self.pick('0', '1', '2')}"),
                                    Node("bool", f"{{}} IS {self.pick('', 'NOT ')}NULL", self.aggregate(columns, exact))))
        return items, Node(None, "{}{}", self.grouping(keys, items), Items(having, "", " HAVING "))

    def grouping(self, keys, items):
        """GROUP BY of the keys, or of several sets of them."""
        if not keys or len(keys) > 3 or not self.chance(0.25):
            return Items(keys, ", ", " GROUP BY ")
        if self.chance(0.4):
            items.append(Node("int", "CAST(grouping({}) AS BIGINT)", self.random.choice(keys)))
        shape = self.random.random()
        if shape < 0.4:
            return Items(keys, ", ", " GROUP BY ROLLUP (", ")", fixed=True)
        if shape < 0.7:
            return Items(keys, ", ", " GROUP BY CUBE (", ")", fixed=True)
        sets = [[key for key in keys if self.chance(0.5)] for _ in range(self.random.randint(1, 4))]
        sets.append(list(keys))
        return Items([Items(some, ", ", "(", ")", fixed=True) if some else Node(None, "()") for some in sets], ", ", " GROUP BY GROUPING SETS (", ")", fixed=True)

    def window(self, columns):
        """A window function whose value does not depend on the order of equal rows."""
        partition = Items([column.node() for column in self.random.sample(columns, min(len(columns), self.pick(0, 1, 1, 2)))], ", ", "PARTITION BY ")
        directions = [f"{{}} {self.pick('ASC', 'DESC')} NULLS {self.pick('FIRST', 'LAST')}" for _ in columns]
        some = Node(None, f"ORDER BY {directions[0]}", self.random.choice(columns).node())
        total = Items([Node(None, way, column.node()) for way, column in zip(directions, columns)], ", ", "ORDER BY ", fixed=True)
        column = self.random.choice(columns)
        frame = f"{self.pick('ROWS', 'ROWS', 'GROUPS')} BETWEEN {self.pick('UNBOUNDED', '1', '3')} PRECEDING AND {self.pick('CURRENT ROW', '2 FOLLOWING')}"
        frame += self.pick("", "", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES")
        only = Items([self.condition(columns, 1)] if self.chance(0.2) else [], "", " FILTER (WHERE ", ")")
        ignores = self.chance(0.3)
        # The words stand inside of the parentheses in DuckDB.
        nulls = (Dialect("", " IGNORE NULLS"), Dialect(" IGNORE NULLS", "")) if ignores else ("", "")
        calls = [
            lambda: Node("int", f"{self.pick('rank', 'dense_rank')}() OVER ({{}} {{}})", partition, some),
            lambda: Node("int", "count({}){} OVER ({} {})", column.node(), only, partition, some),
            lambda: Node("int", f"ntile({self.pick('1', '3', '100')}) OVER ({{}} {{}})", partition, total),
            lambda: Node("int", f"CAST({self.pick('percent_rank', 'cume_dist')}() OVER ({{}} {{}}) * 1000000 AS BIGINT)", partition, some),
            lambda: Node(column.kind, f"nth_value({{}}, {self.pick('1', '2', '5')}) OVER ({{}} {{}} {frame})", column.node(), partition, total),
            lambda: Node("int", "row_number() OVER ({} {})", partition, total),
            lambda: Node(column.kind, f"{self.pick('lag', 'lead')}({{}}{self.pick('', ', 2', ', 0')}{{}}){{}} OVER ({{}} {{}})", column.node(), *nulls, partition, total),
            lambda: Node(column.kind, f"{self.pick('first_value', 'last_value')}({{}}{{}}){{}} OVER ({{}} {{}} {frame})", column.node(), *nulls, partition, total),
        ]
        if column.kind in ("int", "decimal"):
            calls.append(lambda: Node(column.kind, f"sum({{}}){{}} OVER ({{}} {{}} {frame})", column.node(), only, partition, total))
            near = f"RANGE BETWEEN {self.pick('UNBOUNDED', '5', '100')} PRECEDING AND {self.pick('CURRENT ROW', '3 FOLLOWING', '100 FOLLOWING')}"
            calls.append(lambda: Node("int", f"count(*) OVER ({{}} ORDER BY {{}} {self.pick('ASC', 'DESC')} NULLS LAST {near})", partition, column.node()))
        if column.kind != "bool":
            calls.append(lambda: Node(column.kind, f"{self.pick('min', 'max')}({{}}) OVER ({{}})", column.node(), partition))
        return self.random.choice(calls)()

    def plain(self, columns):
        """Select items without aggregates."""
        items, kinds = [], [k for k in self.kinds(columns) if k != APPROXIMATE] or ["int"]
        for _ in range(self.random.randint(1, 5)):
            kind = self.random.choice(kinds)
            if self.subqueries and self.chance(0.06):
                self.subqueries -= 1
                items.append(self.scalar(columns, kind))
            elif len(columns) <= 12 and self.chance(0.15):
                items.append(self.window(columns))
            else:
                items.append(self.value(columns, kind, 2 if self.chance(0.4) else 0))
        return items

    def select(self, depth, outermost=False):
        """A SELECT and its output columns; all of them exact, but for the outermost one."""
        sources = self.pick(1, 2, 2, 2, 3, 3, 4) if outermost else self.pick(1, 1, 1, 2)
        source, columns = self.joined(depth, sources)
        conditions = [self.condition(columns)] if self.chance(0.4) else []
        if self.chance(0.3):
            conditions.append(self.look_up(columns))
        if self.subqueries and self.chance(0.3):
            self.subqueries -= 1
            conditions.append(self.subquery_condition(columns))
        if self.chance(0.4):
            items, groups = self.grouped(columns, exact=not outermost)
            distinct = Items([])
        else:
            items, groups = self.plain(columns), Node(None, "")
            distinct = Items([Node(None, "DISTINCT ")] if self.chance(0.15) else [])
        outputs = [Column(self.name("x"), item.kind) for item in items]
        named = [Node(None, "{} AS {}", item, output.name) for item, output in zip(items, outputs)]
        for output, node in zip(outputs, named):
            output.item = node
        query = Node("query", "SELECT {}{} FROM {}{}{}", distinct, Items(named), source, Items(conditions, " AND ", " WHERE "), groups)
        if outermost and self.chance(0.06) and len(columns) <= 12 and all(column.kind != APPROXIMATE for column in columns):
            # The first row of each value of one column, by all of them.
            columns = [columns[0]] + [column for column in columns[1:] if column.name != columns[0].name]
            order = Items([column.node() for column in columns], ", ", fixed=True)
            query = Node("query", "SELECT * FROM (SELECT DISTINCT ON ({}) {} FROM {}{} ORDER BY {}) d", columns[0].node(),
                         Items([Node(None, "{} AS {}", column.node(), output) for column, output in zip(columns, [self.name("x") for _ in columns])],
                               fixed=True), source, Items(conditions, " AND ", " WHERE "), order)
            outputs = []
        return query, outputs

    def combined(self, query, outputs):
        """The query with set operations upon it."""
        for _ in range(self.pick(1, 1, 2)):
            source, columns = self.table()
            items = Items([Node(None, "{} AS {}", self.value(columns, output.kind, 1), self.name("x")) for output in outputs], fixed=True)
            where = Items([self.condition(columns, 1)] if self.chance(0.5) else [], "", " WHERE ")
            operator = self.pick("UNION ALL", "UNION", "INTERSECT", "EXCEPT")
            query = Node("query", f"({{}}) {operator} ({{}})", query, Node("query", "SELECT {} FROM {}{}", items, source, where))
        return Node("query", "SELECT * FROM ({}) u", query)

    def query(self):
        self.names, self.subqueries, self.views = 0, 2, []
        views = []
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            query, outputs = self.select(1)
            self.views.append((self.name("w"), outputs))
            views.append(Node(None, "{} AS ({})", self.views[-1][0], query))
        query, outputs = self.select(self.pick(0, 1, 1, 2), outermost=True)
        exact = all(output.kind != APPROXIMATE for output in outputs)
        if outputs and exact and self.chance(0.15):
            query = self.combined(query, outputs)
        return Node("query", "{}{}{}", Items(views, ", ", "WITH ", " "), query, self.ending(outputs, exact))

    def ending(self, outputs, exact):
        """ORDER BY, with LIMIT where it orders by every column."""
        if self.chance(0.5):
            return Node(None, "")
        ordered = list(outputs)
        self.random.shuffle(ordered)
        limited = exact and self.chance(0.5)
        if not limited:
            ordered = [output for output in ordered if output.kind != APPROXIMATE][:self.pick(1, 2, 9)]
        nodes = []
        for output in ordered:
            node = Node(None, f"{output.name} {self.pick('ASC', 'DESC')} NULLS {self.pick('FIRST', 'LAST')}")
            node.orders_by, output.item.partner = output.name, node
            nodes.append(node)
        order = Items(nodes, ", ", " ORDER BY ", fixed=limited)
        limit = f" LIMIT {self.pick(0, 1, 3, 10, 100)}" + (f" OFFSET {self.pick(0, 1, 2, 7, 50)}" if self.chance(0.4) else "") if limited else ""
        return Items([Node(None, "{}{}", order, limit)], "") if nodes else Node(None, "")
