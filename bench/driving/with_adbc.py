"""ADBC's driver of PostgreSQL, which speaks COPY in binary both ways."""

import datetime
import decimal
import threading
import time
import unittest

import pyarrow
from adbc_driver_postgresql import dbapi

# A column of each type that makes a table's column.
TABLE = pyarrow.table({
    "i": pyarrow.array([1, None, 3], pyarrow.int64()),
    "j": pyarrow.array([1, 2, 3], pyarrow.int32()),
    "k": pyarrow.array([1, 2, None], pyarrow.int16()),
    "f": pyarrow.array([1.5, None, float("nan")], pyarrow.float64()),
    "g": pyarrow.array([1.5, None, -2.0], pyarrow.float32()),
    "b": pyarrow.array([True, None, False]),
    "t": pyarrow.array(["a'\u00e9", "", None]),
    "x": pyarrow.array([b"\0\1", b"", None]),
    "d": pyarrow.array([datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)]),
    "m": pyarrow.array([datetime.datetime(2024, 1, 2, 3, 4, 5, 6), None, None], pyarrow.timestamp("us")),
    "z": pyarrow.array([datetime.datetime(2024, 1, 2, 3, 4, 5, 6), None, None], pyarrow.timestamp("us", tz="UTC")),
})


class Adbc(unittest.TestCase):
    def setUp(self):
        self.connection = dbapi.connect("postgresql://", autocommit=True)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()
        self.addCleanup(self.cursor.close)

    def asked(self, text, values=None):
        self.cursor.execute(text, values)
        return self.cursor.fetchall()

    def test_tables_go_and_come(self):
        self.assertEqual(self.cursor.adbc_ingest("frame", TABLE, mode="create_append"), 3)
        self.cursor.execute("SELECT * FROM frame ORDER BY j")
        got = self.cursor.fetch_arrow_table()
        self.assertEqual(got.drop(["f"]).to_pylist(), TABLE.drop(["f"]).to_pylist())
        self.assertEqual([str(kind) for kind in got.schema.types],
                         ["int64", "int32", "int16", "double", "float", "bool", "string", "binary", "date32[day]",
                          "timestamp[us]", "timestamp[us, tz=UTC]"])
        self.assertEqual(self.cursor.adbc_ingest("frame", TABLE, mode="append"), 3)
        self.assertEqual(self.asked("SELECT count(*) FROM frame"), [(6,)])
        self.cursor.adbc_ingest("frame", TABLE, mode="replace")
        self.assertEqual(self.asked("SELECT count(*) FROM frame"), [(3,)])
        with self.assertRaises(dbapi.Error):
            self.cursor.adbc_ingest("frame", TABLE, mode="create")
        self.cursor.adbc_ingest("passing", TABLE, mode="create", temporary=True)
        self.assertEqual(self.asked("SELECT count(*) FROM passing"), [(3,)])
        self.cursor.adbc_ingest("named", TABLE, mode="create_append", db_schema_name="public")

    def test_many_rows(self):
        many = pyarrow.table({"n": range(100_000), "s": [f"s{n}" for n in range(100_000)]})
        self.cursor.adbc_ingest("many", many, mode="replace")
        self.cursor.execute("SELECT * FROM many ORDER BY n")
        self.assertEqual(self.cursor.fetch_arrow_table().column("s").to_pylist()[-1], "s99999")

    def test_values(self):
        got = self.asked("SELECT 1.50::numeric(10, 2), DATE '2024-02-29', TIME '01:02:03', INTERVAL '1 day 2 seconds', "
                         "'{\"a\": 1}'::jsonb, 'x'::varchar(3), 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid IS NULL, "
                         "ARRAY['a', NULL], 1::smallint")
        self.assertEqual(got[0][:3], ("1.50", datetime.date(2024, 2, 29), datetime.time(1, 2, 3)))
        self.assertEqual((got[0][4], got[0][5:]), ('{"a": 1}', ("x", False, ["a", None], 1)))

    def test_parameters(self):
        self.assertEqual(self.asked("SELECT $1::int + 1, $2::text, $3::float8", [41, "x", 0.5]), [(42, "x", 0.5)])
        self.asked_nothing(
            "CREATE TABLE IF NOT EXISTS asked (n int PRIMARY KEY, s text, d numeric(10, 2), m timestamp)")
        self.cursor.executemany("INSERT INTO asked VALUES ($1, $2, $3, $4)",
                                [(n, str(n), None, datetime.datetime(2024, 1, 1)) for n in range(50)])
        self.assertEqual(self.asked("SELECT s FROM asked WHERE n = $1", [7]), [("7",)])
        self.cursor.execute("INSERT INTO asked VALUES ($1, $2, $3)", [100, "x", decimal.Decimal("1.50")])
        self.assertEqual(self.asked("SELECT d::text FROM asked WHERE n = 100"), [("1.50",)])

    def asked_nothing(self, text):
        self.cursor.execute(text)

    def test_transactions(self):
        self.asked_nothing("CREATE TABLE IF NOT EXISTS tried (n int PRIMARY KEY)")
        with dbapi.connect("postgresql://") as other, other.cursor() as cursor:
            cursor.execute("INSERT INTO tried VALUES (1)")
            self.assertEqual(self.asked("SELECT count(*) FROM tried"), [(0,)])
            other.rollback()
            cursor.execute("INSERT INTO tried VALUES (2)")
            other.commit()
            with self.assertRaises(dbapi.IntegrityError) as failed:
                cursor.execute("INSERT INTO tried VALUES (2)")
            self.assertEqual(failed.exception.sqlstate, "23505")
            other.rollback()
            cursor.adbc_ingest("tried", pyarrow.table({"n": pyarrow.array([5, 6], pyarrow.int32())}), mode="append")
            other.rollback()
        self.assertEqual(self.asked("SELECT n FROM tried"), [(2,)])

    def test_what_there_is(self):
        self.asked_nothing("CREATE TABLE IF NOT EXISTS seen (n int PRIMARY KEY, s varchar(9) NOT NULL UNIQUE)")
        self.asked_nothing("CREATE TABLE IF NOT EXISTS seeing (n int REFERENCES seen)")
        found = self.connection.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="see%")
        tables = [table for catalog in found.read_all().to_pylist() for schema in catalog["catalog_db_schemas"] or []
                  for table in schema["db_schema_tables"] or []]
        told = {table["table_name"]: table for table in tables}
        self.assertEqual(sorted(told), ["seeing", "seen"])
        self.assertEqual([column["column_name"] for column in told["seen"]["table_columns"]], ["n", "s"])
        self.assertEqual(sorted(one["constraint_type"] for one in told["seen"]["table_constraints"]),
                         ["PRIMARY KEY", "UNIQUE"])
        self.assertEqual([one["constraint_type"] for one in told["seeing"]["table_constraints"]], ["FOREIGN KEY"])
        self.assertEqual([str(kind) for kind in self.connection.adbc_get_table_schema("seen").types], ["int32",
            "string"])
        self.assertIn("table", self.connection.adbc_get_table_types())
        self.assertEqual(self.connection.adbc_get_info()["vendor_name"], "PostgreSQL")
        self.assertEqual(self.cursor.adbc_execute_schema("SELECT 1::bigint AS x").names, ["x"])

    def test_cancelling(self):
        threading.Timer(0.3, self.cursor.adbc_cancel).start()
        begin = time.monotonic()
        with self.assertRaises(dbapi.Error):
            self.asked("SELECT count(*) FROM generate_series(1, 100000) AS a(i), generate_series(1, 100000) AS b(j)")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(self.asked("SELECT 1"), [(1,)])

    def test_errors(self):
        with self.assertRaises(dbapi.ProgrammingError) as failed:
            self.asked("SELECT * FROM nowhere")
        self.assertEqual(failed.exception.sqlstate, "42P01")
