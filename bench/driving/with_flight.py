"""ADBC's driver of Arrow Flight SQL."""

import datetime
import os
import threading
import time
import unittest

import polars
import polars.testing
import pyarrow
from adbc_driver_flightsql import dbapi

from driving.with_adbc import TABLE as PLAIN

TABLE = PLAIN.append_column("l", pyarrow.array([[1, None], [], None], pyarrow.list_(pyarrow.int64())))


class Flight(unittest.TestCase):
    def setUp(self):
        self.connection = dbapi.connect(os.environ["NEARSIDE_FLIGHT"], autocommit=True)
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
        self.assertEqual(self.cursor.adbc_ingest("frame", TABLE, mode="append"), 3)
        self.cursor.adbc_ingest("frame", TABLE, mode="replace")
        self.assertEqual(self.asked("SELECT count(*) FROM frame"), [(3,)])
        with self.assertRaises(dbapi.Error):
            self.cursor.adbc_ingest("frame", TABLE, mode="create")
        self.cursor.adbc_ingest("passing", TABLE, mode="create", temporary=True)
        self.assertEqual(self.asked("SELECT count(*) FROM passing"), [(3,)])
        self.cursor.adbc_ingest("named", TABLE, mode="create_append", db_schema_name="public")

    def test_many_rows(self):
        many = pyarrow.table({"n": range(300_000), "s": [f"s{n}" for n in range(300_000)]})
        self.cursor.adbc_ingest("many", many, mode="replace")
        self.cursor.execute("SELECT * FROM many ORDER BY n")
        reader = self.cursor.fetch_record_batch()
        self.assertEqual(sum(batch.num_rows for batch in reader), 300_000)

    def test_parameters(self):
        self.assertEqual(self.asked("SELECT $1::int + 1, $2::text", [41, "x"]), [(42, "x")])
        self.cursor.execute("CREATE TABLE asked (n int PRIMARY KEY, s text, m timestamp)")
        rows = [(n, str(n), datetime.datetime(2024, 1, 1)) for n in range(50)]
        self.cursor.executemany("INSERT INTO asked VALUES ($1, $2, $3)", rows)
        self.assertEqual(self.asked("SELECT s, m FROM asked WHERE n = $1", [7]), [("7", datetime.datetime(2024, 1, 1))])
        with self.assertRaises(dbapi.Error) as failed:
            self.cursor.executemany("INSERT INTO asked VALUES ($1, $2, $3)", [(100, "", None), (7, "", None)])
        self.assertIn("23505", str(failed.exception))
        self.assertEqual(self.asked("SELECT count(*) FROM asked"), [(50,)])

    def test_transactions(self):
        self.cursor.execute("CREATE TABLE tried (n int PRIMARY KEY)")
        with dbapi.connect(os.environ["NEARSIDE_FLIGHT"]) as other, other.cursor() as cursor:
            cursor.execute("INSERT INTO tried VALUES (1)")
            self.assertEqual(self.asked("SELECT count(*) FROM tried"), [(0,)])
            other.rollback()
            cursor.execute("INSERT INTO tried VALUES (2)")
            other.commit()
            cursor.adbc_ingest("tried", pyarrow.table({"n": pyarrow.array([5, 6], pyarrow.int32())}), mode="append")
            other.rollback()
        self.assertEqual(self.asked("SELECT n FROM tried"), [(2,)])

    def test_what_there_is(self):
        self.cursor.execute("CREATE TABLE seen (n int PRIMARY KEY, s text)")
        found = self.connection.adbc_get_objects(depth="all", db_schema_filter="public", table_name_filter="seen")
        tables = [table for catalog in found.read_all().to_pylist() for schema in catalog["catalog_db_schemas"] or []
                  for table in schema["db_schema_tables"] or []]
        self.assertEqual([(t["table_name"], [c["column_name"] for c in t["table_columns"]]) for t in tables],
                         [("seen", ["n", "s"])])
        self.assertEqual(self.connection.adbc_get_table_schema("seen").names, ["n", "s"])
        self.assertEqual(self.cursor.adbc_execute_schema("SELECT 1 AS x").names, ["x"])
        self.assertIn("vendor_name", self.connection.adbc_get_info())

    def test_frames_of_polars(self):
        frame = polars.DataFrame({"i": range(100), "t": [None, "x"] * 50})
        frame.write_database("frames", self.connection, engine="adbc", if_table_exists="replace")
        polars.testing.assert_frame_equal(polars.read_database("SELECT * FROM frames ORDER BY i", self.connection),
            frame)

    def test_cancelling(self):
        self.cursor.execute("SELECT i, j FROM generate_series(1, 100000) AS a(i), generate_series(1, 100000) AS b(j)")
        reader = self.cursor.fetch_record_batch()
        reader.read_next_batch()
        threading.Timer(0.3, self.cursor.adbc_cancel).start()
        begin = time.monotonic()
        with self.assertRaises(Exception):
            while True:
                reader.read_next_batch()
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(self.asked("SELECT 1"), [(1,)])

    def test_errors(self):
        with self.assertRaises(dbapi.ProgrammingError) as failed:
            self.asked("SELECT * FROM nowhere")
        self.assertIn("42P01", str(failed.exception))
