"""TPC-DS: its tables and queries as DuckDB's extension makes them, and its queries as it has them.

    tpcds.py FOLDER SCALE    writes NAME.parquet of each table, and queries/q01.sql to q99.sql; run by `compare tpcds`

It needs the versions of DuckDB and of the extension in `NEEDED`, which are not those that are measured."""

import pathlib
import subprocess
import sys

NEEDED = ["duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5"]


def data(venv, scale):
    """The folder of the tables and queries, made when it is not there, in an environment of its own."""
    folder = pathlib.Path(venv) / f"tpcds-{scale:g}"
    if (folder / "complete").exists():
        return folder
    own = pathlib.Path(venv) / "tpcds-generator"
    if not (own / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(own)], check=True)
    subprocess.run([str(own / "bin" / "python"), "-m", "pip", "install", "--quiet", *NEEDED], check=True)
    subprocess.run([str(own / "bin" / "python"), __file__, str(folder), str(scale)], check=True)
    (folder / "complete").write_text("")
    return folder


def main(folder, scale):
    import duckdb
    import duckdb_extension_tpcds
    extension = next(pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension"))
    folder = pathlib.Path(folder)
    (folder / "queries").mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CALL dsdgen(sf={float(scale)})")
    for number, text in connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
        (folder / "queries" / f"q{number:02}.sql").write_text(text.strip().removesuffix(";") + "\n")
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    main(*sys.argv[1:])
