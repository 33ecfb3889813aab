"""pandas: frames to tables and back, over SQLAlchemy and over ADBC."""

import unittest

import adbc_driver_postgresql.dbapi
import numpy
import pandas
import sqlalchemy as sa

FRAME = pandas.DataFrame({
    "i": numpy.arange(100, dtype="int64"),
    "s": numpy.arange(100).astype("int32"),
    "f": numpy.where(numpy.arange(100) % 10 == 0, numpy.nan, numpy.arange(100) / 3),
    "b": numpy.arange(100) % 2 == 0,
    "t": [None if n % 7 == 0 else f"text {n}" for n in range(100)],
    "d": pandas.date_range("2024-01-01", periods=100, freq="h"),
    "z": pandas.date_range("2024-01-01", periods=100, freq="D", tz="UTC"),
})


class Pandas(unittest.TestCase):
    def setUp(self):
        self.engine = sa.create_engine("postgresql+psycopg://")
        self.addCleanup(self.engine.dispose)

    def same(self, got, expected=FRAME):
        self.assertEqual(list(got.columns), list(expected.columns))
        self.assertEqual(len(got), len(expected))
        for name in expected.columns:
            left = [None if pandas.isna(value) else value for value in got[name]]
            right = [None if pandas.isna(value) else value for value in expected[name]]
            self.assertEqual(left, right, name)

    def test_frames_go_and_come(self):
        few = FRAME.head(5)
        few.to_sql("few", self.engine, index=False, method="multi")
        self.same(pandas.read_sql("SELECT * FROM few ORDER BY i", self.engine), few)
        FRAME.to_sql("frame", self.engine, index=False, if_exists="replace")
        self.same(pandas.read_sql_table("frame", self.engine).sort_values("i").reset_index(drop=True))
        FRAME.to_sql("frame", self.engine, index=False, if_exists="append")
        self.assertEqual(pandas.read_sql("SELECT count(*) AS n FROM frame", self.engine)["n"][0], 200)
        with self.assertRaises(ValueError):
            FRAME.to_sql("frame", self.engine, if_exists="fail")
        FRAME.to_sql("frame", self.engine, index=False, if_exists="delete_rows")
        self.assertEqual(pandas.read_sql("SELECT count(*) AS n FROM frame", self.engine)["n"][0], 100)

    def test_indexes_and_types_that_are_chosen(self):
        frame = pandas.DataFrame({"n": [1.5, 2.25], "w": ["a", "b"]}, index=pandas.Index([10, 20], name="key"))
        frame.to_sql("typed", self.engine, if_exists="replace", dtype={"n": sa.Numeric(10, 2), "w": sa.String(5)})
        got = pandas.read_sql_table("typed", self.engine, index_col="key")
        self.assertEqual((list(got.index), list(got["n"]), list(got["w"])), ([10, 20], [1.5, 2.25], ["a", "b"]))
        self.assertEqual([index["column_names"] for index in sa.inspect(self.engine).get_indexes("typed")], [["key"]])

    def test_parameters_and_pieces(self):
        FRAME.to_sql("pieces", self.engine, index=False, if_exists="replace", chunksize=30)
        asked = sa.text("SELECT i, t FROM pieces WHERE i >= :low AND t IS NOT NULL ORDER BY i")
        sizes = [len(piece) for piece in pandas.read_sql(asked, self.engine, params={"low": 50}, chunksize=20)]
        self.assertEqual(sum(sizes), sum(1 for n in range(50, 100) if n % 7))
        grouped = pandas.read_sql("SELECT b, avg(f) AS m, max(d) AS d FROM pieces GROUP BY b ORDER BY b", self.engine)
        self.assertEqual(list(grouped["b"]), [False, True])
        self.assertAlmostEqual(grouped["m"][0], FRAME[~FRAME["b"]]["f"].mean())

    def test_over_adbc(self):
        with adbc_driver_postgresql.dbapi.connect("postgresql://") as connection:
            FRAME.to_sql("arrows", connection, index=False, if_exists="replace")
            self.same(pandas.read_sql("SELECT * FROM arrows ORDER BY i", connection))
            self.same(pandas.read_sql_table("arrows", connection).sort_values("i").reset_index(drop=True))
