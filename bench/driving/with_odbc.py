"""PostgreSQL's ODBC driver, by pyodbc: what it asks for the catalog, values, statements and cursors."""

import datetime
import decimal
import os
import threading
import unittest
import uuid

import pyodbc

VALUES = {
    "boolean": True,
    "smallint": -7,
    "integer": 2147483647,
    "bigint": -9223372036854775808,
    "real": 1.5,
    "double precision": -1e300,
    "numeric(20,3)": decimal.Decimal("12345678901234567.123"),
    "numeric(10,2)": decimal.Decimal("-1.50"),
    "text": "a'b\\c\u00e9\U0001f600",
    "varchar(10)": "ab",
    "bytea": b"\x00\xff'\\",
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(23, 59, 59),
    "timestamp": datetime.datetime(1999, 12, 31, 23, 59, 59, 1000),
    "uuid": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
}
SHOP = ["DROP SCHEMA IF EXISTS shop CASCADE", "CREATE SCHEMA shop",
        "CREATE TABLE shop.customer (id serial PRIMARY KEY, name varchar(40) NOT NULL, credit numeric(10, 2))",
        "CREATE TABLE shop.sale (id bigint PRIMARY KEY, customer int NOT NULL CONSTRAINT sale_by REFERENCES "
        "shop.customer (id) ON DELETE CASCADE, at timestamptz DEFAULT now())",
        "CREATE INDEX sale_at ON shop.sale (at)",
        "CREATE VIEW shop.buyers AS SELECT name FROM shop.customer",
        "CREATE FUNCTION shop.doubled(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2'"]


def connect(**settings):
    said = {"DRIVER": os.environ["ODBC_DRIVER"], "SERVER": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
            "UID": os.environ["PGUSER"], "DATABASE": os.environ["PGDATABASE"], "BoolsAsChar": "0", **settings}
    return pyodbc.connect(";".join(f"{name}={value}" for name, value in said.items()), autocommit=True)


class Odbc(unittest.TestCase):
    settings = {"UseServerSidePrepare": "1"}

    def setUp(self):
        self.connection = connect(**self.settings)
        self.addCleanup(self.connection.close)
        self.cursor = self.connection.cursor()

    def execute(self, sql, *parameters):
        return self.cursor.execute(sql, *parameters)

    def one(self, sql, *parameters):
        return self.execute(sql, *parameters).fetchval()

    def run_all(self, statements):
        for sql in statements:
            self.execute(sql)

    def test_catalog(self):
        self.run_all(SHOP)
        tables = [(row.table_name, row.table_type) for row in self.cursor.tables(schema="shop")]
        self.assertEqual(tables, [("buyers", "VIEW"), ("customer", "TABLE"), ("sale", "TABLE")])
        columns = [(row.column_name, row.type_name, row.column_size, row.nullable)
                   for row in self.cursor.columns("customer", schema="shop")]
        self.assertEqual(columns, [("id", "int4", 10, 0), ("name", "varchar", 40, 0), ("credit", "numeric", 10, 1)])
        keys = [(row.column_name, row.pk_name) for row in self.cursor.primaryKeys("customer", schema="shop")]
        self.assertEqual(keys, [("id", "customer_pkey")])
        foreign = [(row.pktable_name, row.pkcolumn_name, row.fktable_name, row.fkcolumn_name, row.delete_rule)
                   for row in self.cursor.foreignKeys(foreignTable="sale", foreignSchema="shop")]
        self.assertEqual(foreign, [("customer", "id", "sale", "customer", 0)])
        foreign = [row.fk_name for row in self.cursor.foreignKeys("customer", schema="shop")]
        self.assertEqual(foreign, ["sale_by"])
        self.assertEqual([row.procedure_name for row in self.cursor.procedures(schema="shop")], ["doubled"])
        called = [(row.column_name, row.type_name) for row in self.cursor.procedureColumns("doubled", schema="shop")]
        self.assertEqual(called[-1][-1], "int4")
        self.cursor.rowVerColumns("customer", schema="shop").fetchall()
        kinds = [row.type_name for row in self.cursor.getTypeInfo()]
        self.assertTrue({"int4", "text", "numeric"} <= set(kinds), kinds)
        self.assertEqual([row[1] for row in self.cursor.tables(catalog="", schema="%", table="") if row[1] == "shop"],
                         ["shop"])

    def test_values_go_and_come(self):
        for kind, value in VALUES.items():
            with self.subTest(kind=kind):
                row = self.execute(f"SELECT CAST(? AS {kind}), CAST(NULL AS {kind})", value).fetchone()
                got = row[0]
                if kind == "uuid":
                    got = uuid.UUID(got)
                self.assertEqual((got, row[1]), (value, None))

    def test_values_are_kept_in_a_table(self):
        columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
        self.run_all(["DROP TABLE IF EXISTS kept", f"CREATE TABLE kept ({columns})"])
        marks = ", ".join("?" for _ in VALUES)
        self.execute(f"INSERT INTO kept VALUES ({marks})", *VALUES.values())
        self.cursor.executemany(f"INSERT INTO kept VALUES ({marks})", [tuple(VALUES.values())] * 3)
        rows = self.execute("SELECT * FROM kept").fetchall()
        self.assertEqual(len(rows), 4)
        for row in rows:
            got = [uuid.UUID(value) if kind == "uuid" else value for kind, value in zip(VALUES, row)]
            self.assertEqual(got, list(VALUES.values()))
        self.assertEqual(self.one("SELECT count(*) FROM kept WHERE c2 = ? AND c8 = ?", 2147483647, VALUES["text"]), 4)

    def test_statements_tell_their_columns(self):
        self.execute("DROP TABLE IF EXISTS told")
        self.execute("CREATE TABLE told (n int NOT NULL, s varchar(5), d numeric(10, 2))")
        self.execute("SELECT n, s, d, n + 1 AS m FROM told WHERE n = ?", 1)
        told = [(name, size, digits, null) for name, _, _, size, _, digits, null in self.cursor.description]
        self.assertEqual([name for name, *_ in told], ["n", "s", "d", "m"])
        self.assertEqual([size for _, size, *_ in told], [10, 5, 10, 10])

    def test_transactions_and_errors(self):
        self.run_all(["DROP TABLE IF EXISTS tried", "CREATE TABLE tried (n int PRIMARY KEY)"])
        self.connection.autocommit = False
        self.execute("INSERT INTO tried VALUES (?)", 1)
        self.connection.commit()
        self.execute("INSERT INTO tried VALUES (?)", 2)
        with self.assertRaises(pyodbc.IntegrityError) as failed:
            self.execute("INSERT INTO tried VALUES (?)", 1)
        self.assertEqual(failed.exception.args[0], "23505")
        # The driver sets savepoints, and takes back the statement that failed alone.
        self.assertEqual(self.one("SELECT count(*) FROM tried"), 2)
        self.connection.rollback()
        self.connection.autocommit = True
        self.assertEqual(self.one("SELECT count(*) FROM tried"), 1)
        with self.assertRaises(pyodbc.ProgrammingError) as failed:
            self.execute("SELECT * FROM nowhere")
        self.assertEqual(failed.exception.args[0], "42P01")
        with self.assertRaises(pyodbc.Error) as failed:
            self.execute("SELECT 1 / ?", 0)
        self.assertEqual(failed.exception.args[0], "22012")

    def test_several_results(self):
        self.execute("SELECT 1 AS a; SELECT 2 AS b, 3 AS c")
        self.assertEqual(tuple(self.cursor.fetchone()), (1,))
        self.assertTrue(self.cursor.nextset())
        self.assertEqual(tuple(self.cursor.fetchone()), (2, 3))

    def test_functions_are_called(self):
        self.run_all(SHOP)
        self.assertEqual(self.execute("{call shop.doubled(?)}", 21).fetchval(), 42)
        self.assertEqual(self.one("SELECT {fn concat('a', {fn ucase('b')})}"), "aB")
        self.assertEqual(self.one("SELECT {d '2024-02-29'}"), datetime.date(2024, 2, 29))

    def test_many_rows(self):
        sql = "SELECT i, CAST(i AS text) AS t FROM generate_series(1, 3210) AS s(i) ORDER BY i"
        rows = self.execute(sql).fetchall()
        self.assertEqual(len(rows), 3210)
        self.assertEqual(tuple(rows[-1]), (3210, "3210"))

    def test_time_limits_cancel(self):
        self.execute("SET statement_timeout = 300")
        with self.assertRaises(pyodbc.Error) as failed:
            self.execute("SELECT pg_sleep(30)")
        self.assertEqual(failed.exception.args[0], "57014")
        self.execute("SET statement_timeout = 0")
        canceller = threading.Timer(0.3, self.cursor.cancel)
        canceller.start()
        with self.assertRaises(pyodbc.Error):
            self.execute("SELECT pg_sleep(30)")
        canceller.join()
        self.assertEqual(self.one("SELECT 1"), 1)

    def test_what_the_driver_tells(self):
        self.assertEqual(self.connection.getinfo(pyodbc.SQL_DBMS_NAME), "PostgreSQL")
        self.assertEqual(self.connection.getinfo(pyodbc.SQL_DATABASE_NAME), "nearside")
        self.assertEqual(self.connection.getinfo(pyodbc.SQL_USER_NAME), "nearside")


class PreparedByTheDriver(Odbc):
    settings = {"UseServerSidePrepare": "0"}


class WithCursors(Odbc):
    settings = {"UseDeclareFetch": "1", "Fetch": "100"}


if __name__ == "__main__":
    unittest.main()
