// node-postgres (pg), with its cursors, streams of rows and of COPY.
"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { pipeline } = require("node:stream/promises");
const { Readable } = require("node:stream");
const { Client, Pool, types } = require("pg");
const Cursor = require("pg-cursor");
const QueryStream = require("pg-query-stream");
const copy = require("pg-copy-streams");

let client;

before(async () => {
  client = new Client();
  await client.connect();
});

after(() => client.end());

const value = async (sql, parameters) => {
  const got = await client.query({ text: sql, values: parameters, rowMode: "array" });
  return got.rows[0][0];
};

const fails = (code, sql, parameters) =>
  client.query(sql, parameters).then(
    () => assert.fail(`${sql} does not fail`),
    (wrong) => {
      assert.equal(wrong.code, code, wrong.message);
      return wrong;
    },
  );

test("values go and come", async () => {
  const values = {
    boolean: true,
    smallint: -7,
    integer: 2147483647,
    bigint: "-9223372036854775808",
    real: 1.5,
    "double precision": -1e300,
    "numeric(30,3)": "12345678901234567890.123",
    text: "a'b\\c\u00e9\u{1f600}",
    "varchar(10)": "ab",
    bytea: Buffer.from([0, 255, 39, 92]),
    timestamptz: new Date("2024-06-01T12:00:00.123Z"),
    uuid: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    json: { a: [1, null] },
    jsonb: { a: [1, null] },
    "integer[]": [1, null, 3],
    "text[]": ["a b", "", null, "\"{}"],
    "boolean[]": [true, false],
    "integer[][]": [[1, 2], [3, 4]],
  };
  for (const [kind, wanted] of Object.entries(values)) {
    assert.deepEqual(await value(`SELECT $1::${kind}`, [wanted]), wanted, kind);
    assert.equal(await value(`SELECT $1::${kind}`, [null]), null, kind);
  }
  assert.equal((await value("SELECT $1::date", [new Date(2024, 1, 29)])).getDate(), 29);
  assert.deepEqual({ ...(await value("SELECT interval '1 year 2 days 3.5 seconds'")) }, {
    years: 1, days: 2, seconds: 3, milliseconds: 500,
  });
  assert.equal(await value("SELECT $1::jsonb -> 'a' ->> 0", [{ a: ["x"] }]), "x");
});

test("values are kept in a table", async () => {
  await client.query("DROP TABLE IF EXISTS kept");
  await client.query("CREATE TABLE kept (id serial PRIMARY KEY, name text, at timestamptz DEFAULT now(), j jsonb)");
  const put = await client.query("INSERT INTO kept (name, j) VALUES ($1, $2), ($3, $4) RETURNING *",
    ["a", { n: 1 }, "b", JSON.stringify([1])]);
  assert.equal(put.command, "INSERT");
  assert.equal(put.rowCount, 2);
  assert.deepEqual(put.rows.map((row) => [row.id, row.name, row.j]), [[1, "a", { n: 1 }], [2, "b", [1]]]);
  assert.ok(put.rows[0].at instanceof Date);
  assert.deepEqual(put.fields.map((field) => [field.name, field.dataTypeID]),
    [["id", types.builtins.INT4], ["name", types.builtins.TEXT], ["at", types.builtins.TIMESTAMPTZ],
      ["j", types.builtins.JSONB]]);
  const some = await client.query("SELECT name FROM kept WHERE id = ANY($1)", [[2, 3]]);
  assert.deepEqual(some.rows, [{ name: "b" }]);
});

test("statements that are prepared by name", async () => {
  const query = { name: "sum", text: "SELECT $1::int + $2::int AS sum", values: [1, 2] };
  for (let time = 0; time < 3; time += 1) {
    assert.deepEqual((await client.query({ ...query, values: [time, 2] })).rows, [{ sum: time + 2 }]);
  }
  const binary = await client.query({ text: "SELECT 7::int AS a, 'x'::text AS b, 1.5::float8 AS c", binary: true });
  assert.deepEqual({ ...binary.rows[0] }, { a: 7, b: "x", c: 1.5 });
});

test("several statements in one text", async () => {
  const several = await client.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c");
  assert.deepEqual(several.map((one) => one.rows), [[{ a: 1 }], [{ b: 2, c: 3 }]]);
});

test("pools and transactions", async () => {
  const pool = new Pool({ max: 3, application_name: "tests", statement_timeout: 20000 });
  await pool.query("DROP TABLE IF EXISTS tried");
  await pool.query("CREATE TABLE tried (n int PRIMARY KEY)");
  const got = await Promise.all([...Array(20).keys()].map((n) => pool.query("SELECT $1::int * 2 AS n", [n])));
  assert.deepEqual(got.map((one) => one.rows[0].n), [...Array(20).keys()].map((n) => n * 2));
  assert.equal((await pool.query("SHOW application_name")).rows[0].application_name, "tests");
  const one = await pool.connect();
  await one.query("BEGIN");
  await one.query("INSERT INTO tried VALUES (1)");
  assert.equal((await pool.query("SELECT * FROM tried")).rowCount, 0);
  await one.query("ROLLBACK");
  one.release();
  assert.equal((await pool.query("SELECT count(*)::int AS n FROM tried")).rows[0].n, 0);
  await pool.end();
});

test("cursors and streams of rows", async () => {
  const cursor = client.query(new Cursor("SELECT i::int AS n FROM generate_series(1, $1::int) AS s (i)", [250]));
  assert.equal((await cursor.read(100)).length, 100);
  assert.equal((await cursor.read(100))[0].n, 101);
  await cursor.close();
  let sum = 0;
  const all = new QueryStream("SELECT i::int AS n FROM generate_series(1, 1000) AS s (i)", [], { batchSize: 30 });
  for await (const row of client.query(all)) {
    sum += row.n;
  }
  assert.equal(sum, 500500);
});

test("copies", async () => {
  await client.query("DROP TABLE IF EXISTS copied");
  await client.query("CREATE TABLE copied (n int, s text)");
  const lines = Readable.from([...Array(1000).keys()].map((n) => `${n}\tline ${n}\n`));
  await pipeline(lines, client.query(copy.from("COPY copied FROM STDIN")));
  const out = client.query(copy.to("COPY (SELECT * FROM copied ORDER BY n) TO STDOUT (FORMAT csv)"));
  const parts = [];
  for await (const part of out) {
    parts.push(part);
  }
  const text = Buffer.concat(parts).toString();
  assert.equal(text.split("\n").length, 1001);
  assert.ok(text.startsWith("0,line 0\n1,line 1\n"));
  await assert.rejects(pipeline(Readable.from(["x\ty\n"]), client.query(copy.from("COPY copied FROM STDIN"))),
    { code: "22P02" });
});

test("errors have fields", async () => {
  await client.query("DROP TABLE IF EXISTS unique_ones");
  await client.query("CREATE TABLE unique_ones (n int CONSTRAINT only_once UNIQUE, s text NOT NULL)");
  await client.query("INSERT INTO unique_ones VALUES (1, 'a')");
  const twice = await fails("23505", "INSERT INTO unique_ones VALUES ($1, 'b')", [1]);
  assert.deepEqual([twice.schema, twice.table, twice.constraint], ["public", "unique_ones", "only_once"]);
  const missing = await fails("23502", "INSERT INTO unique_ones (n) VALUES (2)");
  assert.deepEqual([missing.column, missing.severity], ["s", "ERROR"]);
  assert.equal((await fails("42703", "SELECT nothing")).position, "8");
  await fails("42P01", "SELECT * FROM nowhere");
  await fails("22P02", "SELECT $1::int", ["text"]);
  await fails("22012", "SELECT 1 / 0");
});

test("statements have limits of time", async () => {
  const hasty = new Client({ statement_timeout: 300 });
  await hasty.connect();
  await assert.rejects(hasty.query("SELECT pg_sleep(30)"), { code: "57014" });
  assert.equal((await hasty.query("SELECT 1 AS a")).rows[0].a, 1);
  await hasty.end();
});

test("listening is refused by name, or there", async () => {
  const heard = new Promise((resolve) => client.once("notification", resolve));
  const refused = await client.query("LISTEN tests").then(() => null, (wrong) => wrong);
  if (refused) {
    assert.equal(refused.code, "0A000");
    assert.match(refused.message, /LISTEN/);
    return;
  }
  await client.query("NOTIFY tests, 'x'");
  assert.equal((await heard).payload, "x");
});
