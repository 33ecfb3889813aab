"""asyncpg, which speaks binary alone."""

import asyncio
import datetime
import decimal
import io
import json
import unittest
import uuid

import asyncpg

UTC = datetime.timezone.utc
VALUES = {
    "boolean": True,
    "smallint": -7,
    "integer": 2147483647,
    "bigint": -9223372036854775808,
    "real": 1.5,
    "double precision": -1e300,
    "numeric": decimal.Decimal("12345678901234567890.123"),
    "numeric(10,2)": decimal.Decimal("-1.50"),
    "text": "a'b\\c\u00e9\U0001f600",
    "varchar(10)": "ab",
    "bytea": b"\x00\xff'\\",
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(23, 59, 59, 999999),
    "timestamp": datetime.datetime(1999, 12, 31, 23, 59, 59, 1),
    "timestamptz": datetime.datetime(2024, 6, 1, 12, tzinfo=UTC),
    "interval": datetime.timedelta(days=3, seconds=4, microseconds=5),
    "uuid": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "json": '{"a": [1, null]}',
    "jsonb": '{"a": [1, null]}',
    "integer[]": [1, None, 3],
    "text[]": ["a b", "", None],
    "numeric[]": [decimal.Decimal("1.5"), None],
    "timestamptz[]": [datetime.datetime(2024, 6, 1, 12, tzinfo=UTC)],
}


class Asyncpg(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.connection = await asyncpg.connect()
        self.execute, self.fetch = self.connection.execute, self.connection.fetch
        self.one, self.row = self.connection.fetchval, self.connection.fetchrow

    async def asyncTearDown(self):
        await self.connection.close()

    async def table(self, name, columns):
        await self.execute(f"DROP TABLE IF EXISTS {name}")
        await self.execute(f"CREATE TABLE {name} ({columns})")

    async def test_values_go_and_come(self):
        for kind, value in VALUES.items():
            with self.subTest(kind=kind):
                self.assertEqual(await self.one(f"SELECT $1::{kind}", value), value)
                self.assertIsNone(await self.one(f"SELECT $1::{kind}", None))

    async def test_values_are_kept_in_a_table(self):
        await self.table("kept", ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES)))
        marks = ", ".join(f"${number + 1}" for number in range(len(VALUES)))
        await self.execute(f"INSERT INTO kept VALUES ({marks})", *VALUES.values())
        self.assertEqual(tuple(await self.row("SELECT * FROM kept")), tuple(VALUES.values()))

    async def test_lists_within_lists(self):
        self.assertEqual(await self.one("SELECT ARRAY[[1, 2], [3, 4]]"), [[1, 2], [3, 4]])
        self.assertEqual(await self.one("SELECT ARRAY[]::int[]"), [])

    async def test_prepared_statements_tell_their_types(self):
        await self.table("told", "n int PRIMARY KEY, s varchar(5), d numeric(10, 2), l int[]")
        statement = await self.connection.prepare("SELECT s, d, l, n + 1 AS m FROM told WHERE n = $1 AND s = $2")
        self.assertEqual([kind.name for kind in statement.get_parameters()], ["int4", "text"])
        self.assertEqual([(a.name, a.type.name) for a in statement.get_attributes()],
                         [("s", "varchar"), ("d", "numeric"), ("l", "int4[]"), ("m", "int4")])
        statement = await self.connection.prepare("INSERT INTO told VALUES ($1, $2, $3, $4)")
        told = [kind.name.replace("varchar", "text") for kind in statement.get_parameters()]
        self.assertEqual(told, ["int4", "text", "numeric", "int4[]"])
        await statement.fetch(1, "a", decimal.Decimal("1.5"), [1])
        self.assertEqual(statement.get_statusmsg(), "INSERT 0 1")

    async def test_statements_whose_table_changes(self):
        await self.table("changed", "n int")
        await self.execute("INSERT INTO changed VALUES (1)")
        self.assertEqual(tuple(await self.row("SELECT * FROM changed")), (1,))
        await self.execute("ALTER TABLE changed ADD COLUMN s text DEFAULT 'x'")
        self.assertEqual(tuple(await self.row("SELECT * FROM changed")), (1, "x"))

    async def test_transactions_with_errors_and_savepoints(self):
        await self.table("tried", "n int PRIMARY KEY")
        with self.assertRaises(asyncpg.UniqueViolationError) as failed:
            async with self.connection.transaction():
                await self.execute("INSERT INTO tried VALUES (1)")
                await self.execute("INSERT INTO tried VALUES (1)")
        self.assertEqual(failed.exception.constraint_name, "tried_pkey")
        async with self.connection.transaction(isolation="repeatable_read"):
            await self.execute("INSERT INTO tried VALUES (1)")
            with self.assertRaises(asyncpg.UniqueViolationError):
                async with self.connection.transaction():
                    await self.execute("INSERT INTO tried VALUES (2), (1)")
            await self.execute("INSERT INTO tried VALUES (3)")
        self.assertEqual([n for n, in await self.fetch("SELECT n FROM tried ORDER BY n")], [1, 3])
        async with self.connection.transaction(readonly=True):
            with self.assertRaises(asyncpg.ReadOnlySQLTransactionError):
                async with self.connection.transaction():
                    await self.execute("INSERT INTO tried VALUES (4)")

    async def test_cursors(self):
        async with self.connection.transaction():
            got = [n async for n, in self.connection.cursor("SELECT generate_series(1, $1::int)", 500, prefetch=50)]
            self.assertEqual(got, list(range(1, 501)))
            cursor = await self.connection.cursor("SELECT generate_series(1, 10)")
            self.assertEqual([n for n, in await cursor.fetch(3)], [1, 2, 3])
            self.assertEqual(await cursor.fetchrow(), (4,))

    async def test_many_rows(self):
        await self.table("many", "n int PRIMARY KEY, s text")
        await self.connection.executemany("INSERT INTO many VALUES ($1, $2)", [(n, str(n)) for n in range(1000)])
        self.assertEqual(await self.one("SELECT count(*) FROM many"), 1000)
        with self.assertRaises(asyncpg.UniqueViolationError):
            await self.connection.executemany("INSERT INTO many VALUES ($1, $2)", [(2000, ""), (1, ""), (2001, "")])
        self.assertEqual(await self.one("SELECT count(*) FROM many"), 1000)
        got = await self.connection.fetchmany("INSERT INTO many VALUES ($1, 'x') RETURNING n", [(3000,), (3001,)])
        self.assertEqual([n for n, in got], [3000, 3001])

    async def test_copies(self):
        names = [f"c{number}" for number in range(len(VALUES))]
        await self.table("copied", ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES)))
        said = await self.connection.copy_records_to_table("copied", records=[tuple(VALUES.values())] * 50)
        self.assertEqual(said, "COPY 50")
        await self.connection.copy_records_to_table("copied", records=[(True, None)], columns=["c0", "c2"])
        binary = io.BytesIO()
        await self.connection.copy_from_table("copied", output=binary, format="binary", columns=names)
        binary.seek(0)
        self.assertEqual(await self.connection.copy_to_table("copied", source=binary, format="binary"), "COPY 51")
        text = io.BytesIO()
        said = await self.connection.copy_from_query("SELECT c1, c8 FROM copied LIMIT 2", output=text,
                                                     format="csv", header=True)
        self.assertEqual((said, text.getvalue().decode().splitlines()[0]), ("COPY 2", "c1,c8"))

    async def test_errors_tell_where(self):
        with self.assertRaises(asyncpg.UndefinedColumnError) as failed:
            await self.fetch("SELECT nothing")
        self.assertEqual((failed.exception.sqlstate, failed.exception.position), ("42703", "8"))
        with self.assertRaises(asyncpg.DataError):
            await self.fetch("SELECT $1::int", "text")
        with self.assertRaises(asyncpg.PostgresSyntaxError):
            await self.fetch("SELEC 1")

    async def test_time_limits_cancel(self):
        with self.assertRaises(asyncio.TimeoutError):
            await self.fetch("SELECT pg_sleep(30)", timeout=0.3)
        self.assertEqual(await self.one("SELECT 1"), 1)

    async def test_pools(self):
        async with asyncpg.create_pool(min_size=2, max_size=4) as pool:
            async def one(number):
                async with pool.acquire() as connection:
                    await connection.execute("SET search_path TO pg_catalog")
                    return await connection.fetchval("SELECT $1::int * 2", number)
            self.assertEqual(await asyncio.gather(*map(one, range(20))), [n * 2 for n in range(20)])
            self.assertIn("public", await pool.fetchval("SHOW search_path"))

    async def test_codecs_of_json_enums_and_records(self):
        await self.connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        self.assertEqual(await self.one("SELECT '{\"a\": [1]}'::jsonb"), {"a": [1]})
        await self.execute("DROP TYPE IF EXISTS mood")
        await self.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
        self.assertEqual(await self.one("SELECT $1::mood", "happy"), "happy")
        self.assertEqual(tuple(await self.one("SELECT ROW(1, 'x'::text, NULL::int)")), (1, "x", None))

    async def test_settings_and_what_is_told(self):
        self.assertGreaterEqual(self.connection.get_server_version().major, 15)
        self.assertEqual(self.connection.get_settings().client_encoding, "UTF8")
        other = await asyncpg.connect(server_settings={"application_name": "tests", "search_path": "pg_catalog"})
        try:
            self.assertEqual(await other.fetchval("SHOW application_name"), "tests")
            self.assertEqual(await other.fetchval("SHOW search_path"), "pg_catalog")
        finally:
            await other.close()

    async def test_listening_is_refused_by_name_or_there(self):
        heard = asyncio.Event()
        try:
            await self.connection.add_listener("tests", lambda *_: heard.set())
        except asyncpg.FeatureNotSupportedError as refused:
            self.assertIn("LISTEN", str(refused))
            return
        await self.execute("NOTIFY tests")
        await asyncio.wait_for(heard.wait(), 5)
