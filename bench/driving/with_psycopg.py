"""psycopg 3."""

import asyncio
import datetime
import decimal
import threading
import time
import unittest
import uuid

import psycopg
from psycopg import errors, rows, sql
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb

UTC = datetime.timezone.utc
# A value of each type, as Python has it and as SQL writes it.
VALUES = {
    "boolean": (True, "true"),
    "smallint": (-7, "-7"),
    "integer": (2147483647, "2147483647"),
    "bigint": (-9223372036854775808, "(-9223372036854775808)"),
    "real": (1.5, "1.5"),
    "double precision": (-1e300, "'-1e300'"),
    "numeric": (decimal.Decimal("12345678901234567890.123"), "12345678901234567890.123"),
    "numeric(10,2)": (decimal.Decimal("-1.50"), "-1.50"),
    "text": ("a'b\\c\u00e9\U0001f600", "'a''b\\c\u00e9\U0001f600'"),
    "varchar(10)": ("ab", "'ab'"),
    "bytea": (b"\x00\xff'\\", "'\\x00ff275c'"),
    "date": (datetime.date(2024, 2, 29), "'2024-02-29'"),
    "time": (datetime.time(23, 59, 59, 999999), "'23:59:59.999999'"),
    "timestamp": (datetime.datetime(1999, 12, 31, 23, 59, 59, 1), "'1999-12-31 23:59:59.000001'"),
    "timestamptz": (datetime.datetime(2024, 6, 1, 12, tzinfo=UTC), "'2024-06-01 12:00+00'"),
    "interval": (datetime.timedelta(days=3, seconds=4, microseconds=5), "'3 days 00:00:04.000005'"),
    "uuid": (uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    "integer[]": ([1, None, 3], "'{1,NULL,3}'"),
    "text[]": (["a b", "", None, 'q"q'], "'{\"a b\",\"\",NULL,\"q\\\"q\"}'"),
    "json": ({"a": [1, None, "x"]}, "'{\"a\": [1, null, \"x\"]}'"),
    "jsonb": ({"a": [1, None, "x"]}, "'{\"a\": [1, null, \"x\"]}'"),
}


def given(kind, value):
    """A value as a parameter of its type."""
    return {"json": Json, "jsonb": Jsonb}.get(kind, lambda plain: plain)(value)


class Psycopg(unittest.TestCase):
    def setUp(self):
        self.connection = psycopg.connect(autocommit=True, application_name="tests")
        self.addCleanup(self.connection.close)
        self.execute = self.connection.execute

    def one(self, text, values=None, **more):
        return self.execute(text, values, **more).fetchone()[0]

    def table(self, name, columns):
        self.execute(f"DROP TABLE IF EXISTS {name}")
        self.execute(f"CREATE TABLE {name} ({columns})")

    def test_values_come_as_text_and_as_binary(self):
        for kind, (value, text) in VALUES.items():
            for binary in (False, True):
                with self.subTest(kind=kind, binary=binary):
                    self.assertEqual(self.one(f"SELECT {text}::{kind}", binary=binary), value)

    def test_values_go_as_text_and_as_binary(self):
        for kind, (value, text) in VALUES.items():
            for form in ("s", "t", "b"):
                with self.subTest(kind=kind, form=form):
                    asked = f"SELECT %{form}::{kind}, %{form}::{kind} IS NULL"
                    got = self.execute(asked, [given(kind, value), None], binary=form == "b").fetchone()
                    self.assertEqual(got, (value, True))

    def test_values_are_kept_in_a_table(self):
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
        self.table("kept", columns)
        values = [given(kind, value) for kind, (value, _) in VALUES.items()]
        marks = ", ".join(["%s"] * len(values))
        self.execute(f"INSERT INTO kept VALUES ({marks})", values)
        self.execute(f"INSERT INTO kept ({', '.join(f'c{n}' for n in range(len(values)))}) VALUES ({marks})",
                     [None] * len(values))
        for binary in (False, True):
            got = self.execute("SELECT * FROM kept ORDER BY c0 NULLS LAST", binary=binary).fetchall()
            self.assertEqual(got, [tuple(value for value, _ in VALUES.values()), (None,) * len(values)])

    def test_columns_are_described(self):
        self.table("described", "a int, b varchar(20), c numeric(12,3), d timestamptz")
        cursor = self.execute("SELECT * FROM described")
        told = [(column.name, column.type_code, column.internal_size, column.precision, column.scale)
                for column in cursor.description]
        self.assertEqual(told, [("a", 23, 4, None, None), ("b", 1043, None, None, None), ("c", 1700, None, 12, 3),
                                ("d", 1184, 8, None, None)])
        self.assertEqual([column.display_size for column in cursor.description], [None, 20, None, None])

    def test_special_values(self):
        for text, told in [("'NaN'::float8", "nan"), ("'Infinity'::float8", "inf"), ("'-Infinity'::float4", "-inf")]:
            for binary in (False, True):
                self.assertEqual(str(self.one(f"SELECT {text}", binary=binary)), told)
        self.assertEqual(self.one("SELECT %s::text", [""]), "")
        self.assertEqual(self.one("SELECT length(%s)", ["x" * 1_000_000]), 1_000_000)
        self.assertEqual(self.one("SELECT %b::bytea", [b"\0" * 100_000]), b"\0" * 100_000)

    def test_parameters_of_lists(self):
        self.table("listed", "n int PRIMARY KEY, s text")
        self.execute("INSERT INTO listed SELECT i, 's' || i FROM generate_series(1, 10) AS g(i)")
        self.assertEqual(self.one("SELECT count(*) FROM listed WHERE n = ANY(%s)", [[1, 2, 99]]), 2)
        self.assertEqual(self.one("SELECT count(*) FROM listed WHERE s = ANY(%s)", [["s1", "s3"]]), 2)
        self.assertEqual(self.one("SELECT count(*) FROM listed WHERE n <> ALL(%s)", [[1, 2]]), 8)
        self.assertEqual(self.execute("SELECT * FROM unnest(%s::int[], %s::text[]) AS u(a, b)",
                                      [[1, 2], ["x", "y"]]).fetchall(), [(1, "x"), (2, "y")])

    def test_names_are_composed(self):
        self.table('"Odd Name"', '"a ""b" int')
        statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
            sql.Identifier("Odd Name"), sql.Identifier('a "b'), sql.Literal(5))
        self.execute(statement)
        self.assertEqual(self.one('SELECT "a ""b" FROM "Odd Name"'), 5)

    def test_rows_as_dictionaries_and_classes(self):
        cursor = self.connection.cursor(row_factory=rows.dict_row)
        self.assertEqual(cursor.execute("SELECT 1 AS a, 'x' AS b").fetchall(), [{"a": 1, "b": "x"}])
        cursor = self.connection.cursor(row_factory=rows.namedtuple_row)
        self.assertEqual(cursor.execute("SELECT 1 AS a, 'x' AS b").fetchone().b, "x")

    def test_prepared_statements(self):
        self.table("prepared", "n int PRIMARY KEY, s text")
        for n in range(20):
            self.execute("INSERT INTO prepared VALUES (%s, %s)", [n, str(n)], prepare=True)
        for n in range(20):
            got = self.execute("SELECT s FROM prepared WHERE n = %s", [n], prepare=True).fetchone()
            self.assertEqual(got, (str(n),))
        # A statement whose columns have changed is made anew.
        self.execute("ALTER TABLE prepared ADD COLUMN more int DEFAULT 7")
        self.assertEqual(self.execute("SELECT * FROM prepared WHERE n = %s", [3]).fetchone(), (3, "3", 7))
        self.execute("DEALLOCATE ALL")

    def test_many_rows(self):
        self.table("many", "n int PRIMARY KEY, s text")
        cursor = self.connection.cursor()
        cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(n, f"s{n}") for n in range(500)])
        self.assertEqual(cursor.rowcount, 500)
        cursor.executemany("INSERT INTO many VALUES (%s, %s) RETURNING n", [(n, None) for n in range(500, 505)],
                           returning=True)
        got = []
        while True:
            got += cursor.fetchall()
            if not cursor.nextset():
                break
        self.assertEqual(got, [(n,) for n in range(500, 505)])
        with self.assertRaises(errors.UniqueViolation):
            cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(1000, ""), (0, ""), (1001, "")])
        self.assertEqual(self.one("SELECT count(*) FROM many"), 505)

    def test_counts_of_rows(self):
        self.table("counted", "n int")
        self.assertEqual(self.execute("INSERT INTO counted SELECT generate_series(1, 7)").rowcount, 7)
        self.assertEqual(self.execute("UPDATE counted SET n = n + 1 WHERE n > 4").rowcount, 3)
        self.assertEqual(self.execute("DELETE FROM counted").rowcount, 7)
        self.assertEqual(self.execute("SELECT * FROM counted").rowcount, 0)
        self.assertEqual(self.execute("CREATE TABLE IF NOT EXISTS counted (n int)").statusmessage, "CREATE TABLE")

    def test_several_statements_of_a_text(self):
        cursor = self.execute("SELECT 1; SELECT 2, 3; CREATE TEMP TABLE several (n int)")
        self.assertEqual(cursor.fetchall(), [(1,)])
        self.assertTrue(cursor.nextset())
        self.assertEqual(cursor.fetchall(), [(2, 3)])
        self.assertTrue(cursor.nextset())
        self.assertIsNone(cursor.description)
        self.assertFalse(cursor.nextset())

    def test_transactions_with_errors_and_savepoints(self):
        self.table("tried", "n int PRIMARY KEY")
        with psycopg.connect() as other:
            other.execute("INSERT INTO tried VALUES (1)")
            with self.assertRaises(errors.UniqueViolation):
                with other.transaction():
                    other.execute("INSERT INTO tried VALUES (2)")
                    other.execute("INSERT INTO tried VALUES (1)")
            with other.transaction():
                other.execute("INSERT INTO tried VALUES (3)")
                with other.transaction("inner") as inner:
                    other.execute("INSERT INTO tried VALUES (4)")
                    raise psycopg.Rollback(inner)
            self.assertEqual(self.one("SELECT count(*) FROM tried"), 0)
            other.commit()
            self.assertEqual(self.execute("SELECT n FROM tried ORDER BY n").fetchall(), [(1,), (3,)])
            with self.assertRaises(errors.UndefinedTable):
                other.execute("SELECT * FROM nowhere")
            self.assertEqual(other.info.transaction_status, psycopg.pq.TransactionStatus.INERROR)
            with self.assertRaises(errors.InFailedSqlTransaction):
                other.execute("SELECT 1")
            other.rollback()
            self.assertEqual(other.execute("SELECT 1").fetchone(), (1,))

    def test_levels_of_isolation(self):
        with psycopg.connect() as other:
            for level in psycopg.IsolationLevel:
                if level == psycopg.IsolationLevel.READ_UNCOMMITTED:
                    continue
                other.isolation_level = level
                got = other.execute("SHOW transaction_isolation").fetchone()[0]
                self.assertEqual(got, level.name.lower().replace("_", " "))
                other.rollback()
            other.isolation_level = None
            other.read_only = True
            with self.assertRaises(errors.ReadOnlySqlTransaction):
                other.execute("CREATE TABLE refused (n int)")
            other.rollback()

    def test_copy_in(self):
        kinds = list(VALUES)
        self.table("copied", ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)))
        row = [given(kind, value) for kind, (value, _) in VALUES.items()]
        for form in ("", "(FORMAT binary)"):
            with self.subTest(form=form):
                self.execute("TRUNCATE copied")
                with self.connection.cursor().copy(f"COPY copied FROM STDIN {form}") as copy:
                    if form:
                        copy.set_types([kind.split("(")[0] for kind in kinds])
                    for _ in range(100):
                        copy.write_row(row)
                    copy.write_row([None] * len(kinds))
                self.assertEqual(self.one("SELECT count(*) FROM copied"), 101)
                got = self.execute("SELECT DISTINCT ON (c0) * FROM copied ORDER BY c0 NULLS LAST").fetchall()
                self.assertEqual(got, [tuple(value for value, _ in VALUES.values()), (None,) * len(kinds)])

    def test_copy_out(self):
        kinds = ["boolean", "integer", "text", "numeric", "date", "timestamptz", "integer[]", "bytea", "uuid"]
        texts = ", ".join(f"{VALUES[kind][1]}::{kind}" for kind in kinds)
        for form in ("", "(FORMAT binary)"):
            statement = f"COPY (SELECT {texts}) TO STDOUT {form}"
            with self.subTest(form=form), self.connection.cursor().copy(statement) as copy:
                copy.set_types(kinds)
                self.assertEqual(list(copy.rows()), [tuple(VALUES[kind][0] for kind in kinds)])
        with self.connection.cursor().copy("COPY (SELECT 1, 'a,b', NULL) TO STDOUT (FORMAT csv, HEADER)") as copy:
            self.assertEqual(b"".join(copy), b'?column?,?column?,?column?\n1,"a,b",\n')

    def test_copy_that_fails(self):
        self.table("uncopied", "n int PRIMARY KEY")
        with self.assertRaises(errors.InvalidTextRepresentation) as failed:
            with self.connection.cursor().copy("COPY uncopied FROM STDIN") as copy:
                copy.write("1\n2\nx\n")
        self.assertIn("line 3", failed.exception.diag.context)
        with self.assertRaises(ZeroDivisionError):
            with self.connection.cursor().copy("COPY uncopied FROM STDIN") as copy:
                copy.write("1\n")
                raise ZeroDivisionError
        with self.assertRaises(errors.UniqueViolation):
            with self.connection.cursor().copy("COPY uncopied FROM STDIN") as copy:
                copy.write("1\n1\n")
        self.assertEqual(self.one("SELECT count(*) FROM uncopied"), 0)

    def test_cursors_of_the_server(self):
        with psycopg.connect() as other:
            with other.cursor("named") as cursor:
                cursor.itersize = 100
                cursor.execute("SELECT i FROM generate_series(1, %s) AS g(i)", [1000])
                self.assertEqual(cursor.fetchmany(3), [(1,), (2,), (3,)])
                self.assertEqual(sum(n for n, in cursor), 500500 - 6)
            with other.cursor("scrolled", scrollable=True) as cursor:
                cursor.execute("SELECT i FROM generate_series(1, 10) AS g(i)")
                cursor.scroll(5)
                self.assertEqual(cursor.fetchone(), (6,))
                cursor.scroll(-2)
                self.assertEqual(cursor.fetchone(), (5,))
                cursor.scroll(1, mode="absolute")
                self.assertEqual(cursor.fetchone(), (2,))
            with other.cursor("held", withhold=True) as cursor:
                cursor.execute("SELECT i FROM generate_series(1, 10) AS g(i)")
                other.commit()
                self.assertEqual(len(cursor.fetchall()), 10)
            with other.cursor("binary") as cursor:
                cursor.execute("SELECT 1.50::numeric, DATE '2024-01-01'", binary=True)
                self.assertEqual(cursor.fetchone(), (decimal.Decimal("1.50"), datetime.date(2024, 1, 1)))

    def test_streams(self):
        cursor = self.connection.cursor()
        got = list(cursor.stream("SELECT i FROM generate_series(1, %s) AS g(i)", [2000]))
        self.assertEqual((len(got), got[-1]), (2000, (2000,)))
        self.assertEqual(len(list(cursor.stream("SELECT i FROM generate_series(1, %s) AS g(i)", [2000], size=300))),
            2000)

    def test_pipelines(self):
        self.table("piped", "n int PRIMARY KEY")
        with self.connection.pipeline() as pipeline:
            first = self.execute("INSERT INTO piped VALUES (1) RETURNING n")
            second = self.execute("SELECT count(*) FROM piped")
            pipeline.sync()
            self.assertEqual((first.fetchone(), second.fetchone()), ((1,), (1,)))
        with self.assertRaises(errors.UniqueViolation):
            with self.connection.pipeline():
                self.execute("INSERT INTO piped VALUES (2)")
                self.execute("INSERT INTO piped VALUES (1)")
                self.execute("INSERT INTO piped VALUES (3)")
        self.assertEqual(self.execute("SELECT n FROM piped").fetchall(), [(1,)])

    def test_cancelling(self):
        for cancel in (self.connection.cancel, self.connection.cancel_safe):
            timer = threading.Timer(0.3, cancel)
            timer.start()
            begin = time.monotonic()
            with self.assertRaises(errors.QueryCanceled):
                self.execute("SELECT pg_sleep(30)")
            self.assertLess(time.monotonic() - begin, 10)
            timer.join()
        self.assertEqual(self.one("SELECT 1"), 1)

    def test_time_limits(self):
        self.execute("SET statement_timeout = '100ms'")
        with self.assertRaises(errors.QueryCanceled):
            self.execute("SELECT pg_sleep(30)")
        self.execute("RESET statement_timeout")

    def test_errors_are_told_as_they_are(self):
        self.table("parents", "n int PRIMARY KEY")
        self.table("faulty", "n int PRIMARY KEY, p int CONSTRAINT of_parents REFERENCES parents, "
                             "c int NOT NULL CONSTRAINT small CHECK (c < 10)")
        self.execute("INSERT INTO faulty VALUES (1, NULL, 1)")
        for text, kind, told in [
            ("INSERT INTO faulty VALUES (1, NULL, 1)", errors.UniqueViolation,
             {"constraint_name": "faulty_pkey", "table_name": "faulty", "schema_name": "public"}),
            ("INSERT INTO faulty VALUES (2, NULL, NULL)", errors.NotNullViolation,
             {"column_name": "c", "table_name": "faulty"}),
            ("INSERT INTO faulty VALUES (2, NULL, 11)", errors.CheckViolation, {"constraint_name": "small"}),
            ("INSERT INTO faulty VALUES (2, 5, 1)", errors.ForeignKeyViolation, {"constraint_name": "of_parents"}),
            ("SELECT nothing FROM faulty", errors.UndefinedColumn, {"statement_position": "8"}),
            ("SELEC 1", errors.SyntaxError, {"statement_position": "1"}),
            ("SELECT 1 / 0", errors.DivisionByZero, {"severity_nonlocalized": "ERROR"}),
            ("SELECT 'x'::int", errors.InvalidTextRepresentation, {}),
            ("SELECT 2147483647 + 1", errors.NumericValueOutOfRange, {}),
            ("SELECT nothing(1)", errors.UndefinedFunction, {}),
            ("CREATE TABLE faulty (n int)", errors.DuplicateTable, {}),
        ]:
            with self.subTest(text=text), self.assertRaises(kind) as failed:
                self.execute(text)
            for field, value in told.items():
                self.assertEqual(getattr(failed.exception.diag, field), value, (text, field))

    def test_parameters_that_are_wrong(self):
        with self.assertRaises(errors.InvalidTextRepresentation):
            self.execute("SELECT %s::int", ["x"])
        with self.assertRaises(errors.NumericValueOutOfRange):
            self.execute("SELECT %s::smallint", [100000])
        with self.assertRaises(psycopg.DataError):
            self.execute("SELECT %s", ["a\0b"])
        self.assertEqual(self.one("SELECT 1"), 1)

    def test_enums(self):
        self.execute("DROP TYPE IF EXISTS mood")
        self.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        info = EnumInfo.fetch(self.connection, "mood")
        self.assertEqual(list(info.labels), ["sad", "happy"])
        register_enum(info, self.connection)
        for binary in (False, True):
            got = self.execute("SELECT 'happy'::mood, %s::mood", [info.enum.sad], binary=binary).fetchone()
            self.assertEqual(got, (info.enum.happy, info.enum.sad))

    def test_records(self):
        self.assertEqual(self.one("SELECT ROW(1, 'x'::text, NULL)", binary=True), (1, "x", None))

    def test_json_of_parameters(self):
        self.table("documents", "n int, d jsonb")
        self.execute("INSERT INTO documents VALUES (1, %s), (2, %s)", [Jsonb({"k": {"l": [1, 2]}}), Jsonb([1, "two"])])
        self.assertEqual(self.one("SELECT d->'k'->'l' FROM documents WHERE d ? %s", ["k"]), [1, 2])
        self.assertEqual(self.one("SELECT n FROM documents WHERE d @> %s", [Jsonb(["two"])]), 2)
        self.assertEqual(self.one("SELECT d#>>%s FROM documents WHERE n = 1", [["k", "l", "1"]]), "2")

    def test_zones_of_time(self):
        self.execute("SET TimeZone TO 'Europe/Berlin'")
        moment = datetime.datetime(2024, 6, 1, 12, tzinfo=UTC)
        for binary in (False, True):
            got = self.one("SELECT %s::timestamptz", [moment], binary=binary)
            self.assertEqual((got, got.utcoffset()), (moment, datetime.timedelta(hours=2)))
        self.assertEqual(self.connection.info.parameter_status("TimeZone"), "Europe/Berlin")
        self.assertEqual(self.one("SELECT %s::timestamptz::text", [moment]), "2024-06-01 14:00:00+02")

    def test_what_a_connection_tells(self):
        info = self.connection.info
        self.assertEqual((info.dbname, info.user, info.encoding), ("nearside", "nearside", "utf-8"))
        self.assertGreaterEqual(info.server_version, 150000)
        self.assertEqual(self.one("SELECT current_setting('application_name')"), "tests")
        self.assertEqual(self.one("SELECT pg_backend_pid()"), info.backend_pid)
        self.assertEqual(self.one("SELECT current_database()"), "nearside")
        self.execute("SET application_name TO 'others'")
        self.assertEqual(info.parameter_status("application_name"), "others")

    def test_options_of_a_connection(self):
        with psycopg.connect(options="-c search_path=pg_catalog -c statement_timeout=5000") as other:
            self.assertEqual(other.execute("SHOW search_path").fetchone(), ("pg_catalog",))
            self.assertEqual(other.execute("SHOW statement_timeout").fetchone(), ("5s",))
        with self.assertRaises(psycopg.OperationalError):
            psycopg.connect(dbname="nowhere")

    def test_calls_at_the_same_time(self):
        async def all_of_them():
            async def one(number):
                async with await psycopg.AsyncConnection.connect(autocommit=True) as other:
                    cursor = await other.execute("SELECT %s + 1", [number])
                    return (await cursor.fetchone())[0]
            return await asyncio.gather(*map(one, range(20)))
        self.assertEqual(asyncio.run(all_of_them()), list(range(1, 21)))

    def test_locks_of_rows(self):
        self.table("locked", "n int PRIMARY KEY, s text")
        self.execute("INSERT INTO locked VALUES (1, 'a'), (2, 'b')")
        with psycopg.connect() as other:
            self.assertEqual(other.execute("SELECT s FROM locked WHERE n = 1 FOR UPDATE").fetchone(), ("a",))
            with self.assertRaises(errors.LockNotAvailable):
                self.execute("SELECT s FROM locked WHERE n = 1 FOR UPDATE NOWAIT")
            self.assertEqual(self.execute("SELECT n FROM locked ORDER BY n FOR UPDATE SKIP LOCKED").fetchall(), [(2,)])
