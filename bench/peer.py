"""One run of another engine, all data in its memory; called by `compare`, prints JSON.

    peer.py tpch ENGINE FOLDER THREADS < queries.json    each query once to warm up, once for the clock
    peer.py ssb ENGINE FOLDER THREADS < queries.json     the same over every NAME.parquet of the folder; DuckDB's and HyPer's answers come along
    peer.py tpcds ENGINE FOLDER THREADS < queries.json    as ssb
    peer.py analytics ENGINE FOLDER THREADS < queries.json    as ssb
    peer.py scan ENGINE ROWS THREADS                     range selections over uniform integers of 17 to 26 bits"""

import atexit
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time

TABLES = ["lineitem", "orders", "customer", "part", "partsupp", "supplier", "nation", "region"]


# The engines whose answers come as rows of Python values.
WITH_ROWS = ["duckdb", "hyper"]
# What runs of HyPer.
HYPER = contextlib.ExitStack()
atexit.register(HYPER.close)


def resident_bytes(process="self"):
    """Of a process and all that it started: HyPer is a server."""
    resident = 0
    for line in open(f"/proc/{process}/status"):
        if line.startswith("VmRSS"):
            resident = int(line.split()[1]) * 1024
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        resident += sum(resident_bytes(child) for child in children.read_text().split())
    return resident


def hyper(threads):
    """A connection to a HyPer of our own, in the place of the one before. It ends with this process and leaves no logs."""
    import tableauhyperapi as api
    HYPER.close()
    logs = HYPER.enter_context(tempfile.TemporaryDirectory())
    limits = ["hard_concurrent_query_thread_limit", "soft_concurrent_query_thread_limit"]
    parameters = {"log_dir": logs, **{limit: str(threads) for limit in limits}}
    usage = api.Telemetry.DO_NOT_SEND_USAGE_DATA_TO_TABLEAU
    server = HYPER.enter_context(api.HyperProcess(telemetry=usage, parameters=parameters))
    return HYPER.enter_context(api.Connection(server.endpoint))


def load(engine, data, threads, tables):
    """A function that runs one statement and takes its whole result."""
    if engine == "duckdb":
        import duckdb
        connection = duckdb.connect()
        connection.execute(f"SET threads={threads}")
        for table in tables:
            connection.execute(f"create table {table} as select * from '{data}/{table}.parquet'")
        return lambda text: connection.execute(text).fetchall()
    if engine == "hyper":
        server = hyper(threads)
        for table in tables:
            server.execute_command(f"create temporary table {table} as select * from external('{data}/{table}.parquet')")
        return server.execute_list_query
    if engine == "datafusion":
        import datafusion
        import pyarrow.parquet as parquet
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
        for table in tables:
            batches = parquet.read_table(f"{data}/{table}.parquet").combine_chunks().to_batches(max_chunksize=8192)
            context.register_record_batches(table, [batches[i::threads] for i in range(threads)] if len(batches) >= threads else [batches])
        return lambda text: context.sql(text).collect()
    if engine == "clickhouse":
        from chdb import session
        database = session.Session()
        database.query("create database if not exists t")
        for table in tables:
            database.query(f"create table t.{table} engine=Memory as select * from file('{data}/{table}.parquet', Parquet)")
        database.query("use t")
        return lambda text: database.query(f"{text} settings max_threads={threads}, joined_subquery_requires_alias=0", "CSV").bytes()
    if engine == "polars":
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars
        context = polars.SQLContext({table: polars.read_parquet(f"{data}/{table}.parquet") for table in tables})
        return lambda text: context.execute(text, eager=True)
    sys.exit(f"unknown engine {engine}")


def queries_of(engine, data, threads, tables):
    queries = json.load(sys.stdin)
    began = time.perf_counter()
    run = load(engine, data, threads, tables)
    found = {"load_s": time.perf_counter() - began, "resident_bytes": resident_bytes(), "queries": {}}
    for number, text in queries.items():
        statements = [s for s in text.split(";") if s.strip()]
        try:
            for _ in range(2):
                began = time.perf_counter()
                for statement in statements:
                    result = run(statement)
                found["queries"][number] = time.perf_counter() - began
            if engine in WITH_ROWS and tables != TABLES:
                found.setdefault("answers", {})[number] = [[str(value) for value in row] for row in result]
        except Exception as error:  # An engine that cannot run a query is shown with a dash.
            print(f"{engine} query {number}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
            found["queries"][number] = None
            # What failed for want of memory may hold it until its process ends.
            if engine == "hyper":
                run = load(engine, data, threads, tables)
    return found


def selection(engine, rows, threads):
    """A function that selects a range of one column and gives back the whole result."""
    import numpy
    random = numpy.random.default_rng(7)
    columns = {f"c{bits}": random.integers(0, 1 << bits, rows, dtype=numpy.int32) for bits in range(17, 27)}
    if engine == "duckdb":
        import duckdb
        import pyarrow
        connection = duckdb.connect()
        connection.execute(f"SET threads={threads}")
        source = pyarrow.table(columns)  # noqa: F841, DuckDB finds it by name
        connection.execute("create table t as select * from source")
        return lambda c, low, high: connection.execute(f"select {c} from t where {c} >= {low} and {c} <= {high}").to_arrow_table()
    if engine == "polars":
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars
        frame = polars.DataFrame(columns).lazy()
        return lambda c, low, high: frame.filter((polars.col(c) >= low) & (polars.col(c) <= high)).select(c).collect()
    if engine == "datafusion":
        import datafusion
        import pyarrow
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
        batches = pyarrow.table(columns).to_batches(max_chunksize=8192)
        context.register_record_batches("t", [batches[i::threads] for i in range(threads)])
        return lambda c, low, high: context.sql(f"select {c} from t where {c} >= {low} and {c} <= {high}").collect()
    if engine == "clickhouse":
        import pyarrow
        import pyarrow.parquet as parquet
        from chdb import session
        database = session.Session()
        with tempfile.TemporaryDirectory() as folder:
            parquet.write_table(pyarrow.table(columns), f"{folder}/t.parquet", compression="none", use_dictionary=False)
            database.query("create database if not exists d")
            database.query(f"create table d.t engine=Memory as select * from file('{folder}/t.parquet', Parquet)")
        return lambda c, low, high: database.query(f"select {c} from d.t where {c} >= {low} and {c} <= {high} settings max_threads={threads}", "Arrow").bytes()
    sys.exit(f"unknown engine {engine}")


def scan(engine, rows, threads):
    select = selection(engine, rows, threads)
    found = {}
    for share in (1e-5, 1e-3, 1e-2, 1e-1):
        times = []
        for turn in range(2):
            for bits in range(17, 27):
                width = max(1, int((1 << bits) * share))
                low = (1 << bits) // 3
                began = time.perf_counter()
                select(f"c{bits}", low, low + width - 1)
                if turn:
                    times.append(time.perf_counter() - began)
        found[f"{share:g}"] = times
    return found


kind, engine = sys.argv[1:3]
if kind == "tpch":
    print(json.dumps(queries_of(engine, sys.argv[3], int(sys.argv[4]), TABLES)))
elif kind in ("ssb", "tpcds", "analytics"):
    tables = sorted(path.stem for path in pathlib.Path(sys.argv[3]).glob("*.parquet"))
    print(json.dumps(queries_of(engine, sys.argv[3], int(sys.argv[4]), tables)))
else:
    print(json.dumps(scan(engine, int(sys.argv[3]), int(sys.argv[4]))))
