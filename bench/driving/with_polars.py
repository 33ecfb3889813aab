"""polars: frames to tables and back, over SQLAlchemy and over ADBC."""

import datetime
import decimal
import unittest

import adbc_driver_postgresql.dbapi
import polars
import sqlalchemy as sa
from polars.testing import assert_frame_equal

FRAME = polars.DataFrame({
    "i": range(100),
    "f": [None if n % 10 == 0 else n / 3 for n in range(100)],
    "b": [n % 2 == 0 for n in range(100)],
    "t": [None if n % 7 == 0 else f"text {n}" for n in range(100)],
    "d": [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(100)],
    "m": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=n) for n in range(100)],
})


class Polars(unittest.TestCase):
    def test_over_adbc(self):
        FRAME.write_database("frame", "postgresql://", engine="adbc", if_table_exists="replace")
        got = polars.read_database_uri("SELECT * FROM frame ORDER BY i", "postgresql://", engine="adbc")
        assert_frame_equal(got, FRAME)
        FRAME.write_database("frame", "postgresql://", engine="adbc", if_table_exists="append")
        with adbc_driver_postgresql.dbapi.connect("postgresql://") as connection:
            got = polars.read_database("SELECT count(*) AS n, sum(f) AS f FROM frame", connection)
            self.assertEqual(got["n"][0], 200)
            self.assertAlmostEqual(got["f"][0], FRAME["f"].sum() * 2)
            got = polars.read_database("SELECT t FROM frame WHERE i = $1", connection,
                execute_options={"parameters": [3]})
            self.assertEqual(got["t"].to_list(), ["text 3"] * 2)

    def test_over_sqlalchemy(self):
        engine = sa.create_engine("postgresql+psycopg://")
        self.addCleanup(engine.dispose)
        FRAME.write_database("others", "postgresql+psycopg://", if_table_exists="replace")
        got = polars.read_database("SELECT * FROM others ORDER BY i", engine)
        assert_frame_equal(got, FRAME)
        asked = ("SELECT 1.50::numeric(10, 2) AS n, ARRAY[1, 2] AS l, TIMESTAMPTZ '2024-01-01 00:00+00' AS z, "
                 "'x'::text AS s")
        got = polars.read_database(asked, engine)
        self.assertEqual(got.row(0)[:2], (decimal.Decimal("1.50"), [1, 2]))
        pieces = polars.read_database("SELECT * FROM others", engine, iter_batches=True, batch_size=30)
        self.assertEqual(sum(len(piece) for piece in pieces), 100)
