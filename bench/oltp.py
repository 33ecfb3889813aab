"""`compare oltp`: commits of many clients, in folders of one disk, beside PostgreSQL through its own pgbench.

The server is one of our own, in a folder that is gone afterwards."""

import contextlib
import glob
import json
import os
import pathlib
import pwd
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

# The same as `nearside bench oltp` does, prepared once per client.
SCRIPTS = {
    "insert": "\\set account random(0, :rows - 1)\nINSERT INTO history VALUES (:account, 1);\n",
    "update": "\\set account random(0, :rows - 1)\nUPDATE accounts SET balance = balance + 1 WHERE id = :account;\n",
    "upsert": "\\set account random(0, :rows - 1)\nINSERT INTO accounts VALUES (:account, 1) "
              "ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance;\n",
    "transfer": "\\set payer random(0, :rows / 2 - 1)\n\\set payee random(:rows / 2, :rows - 1)\nBEGIN;\n"
                "UPDATE accounts SET balance = balance - 1 WHERE id = :payer;\n"
                "UPDATE accounts SET balance = balance + 1 WHERE id = :payee;\n"
                "INSERT INTO history VALUES (:payer, 1);\nCOMMIT;\n",
}
SETTINGS = {"listen_addresses": "''", "shared_buffers": "1GB", "max_wal_size": "4GB", "max_connections": "1100"}
BALANCE = 1000


def programs(given):
    """The folder with PostgreSQL's programs."""
    known = [given] if given else sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for folder in known:
        if all((pathlib.Path(folder) / name).exists() for name in ("initdb", "postgres", "pgbench", "psql")):
            return pathlib.Path(folder)
    sys.exit("no PostgreSQL: apt-get install postgresql postgresql-contrib, or name the folder of its programs with "
             "--postgres")


class Server:
    """A server of our own, which ends and leaves nothing when the block is left."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.stack = contextlib.ExitStack()
        own = tempfile.TemporaryDirectory(dir=folder, prefix="postgres-")
        self.folder = pathlib.Path(self.stack.enter_context(own))
        self.user = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            self.user = next((name for name in ("postgres", "nobody") if has_user(name)), None)
            shutil.chown(self.folder, self.user)

    def run(self, *command, text=None, options=""):
        words = [str(self.programs / command[0]), *map(str, command[1:])]
        own = {"PGHOST": str(self.folder), "PGDATABASE": "postgres", "PGOPTIONS": options, "LC_ALL": "C"}
        done = subprocess.run(words, input=text, capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **own}, user=self.user)
        if done.returncode != 0:
            sys.exit(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def __enter__(self):
        data = self.folder / "data"
        self.run("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C")
        settings = {**SETTINGS, "unix_socket_directories": f"'{self.folder}'"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value.strip(chr(39))}")]
        log = open(self.folder / "log", "w")
        command = [str(self.programs / "postgres"), "-D", str(data), *words]
        self.server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, user=self.user)
        self.stack.callback(self.end)
        for _ in range(300):
            command = [str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)]
            ready = subprocess.run(command, user=self.user, cwd=self.folder)
            if ready.returncode == 0:
                return self
            if self.server.poll() is not None:
                break
            subprocess.run(["sleep", "0.1"])
        sys.exit(f"PostgreSQL does not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    def end(self):
        self.server.terminate()
        self.server.wait()

    def __exit__(self, *_):
        self.stack.close()

    def ask(self, sql):
        return self.run("psql", "-qAtX", "-v", "ON_ERROR_STOP=1", text=sql).strip()

    def version(self):
        return self.ask("SHOW server_version")

    def measure(self, kind, clients, rows, seconds, is_synchronous):
        """Transactions per second, and how many of them had one sync of the log."""
        self.ask(f"DROP TABLE IF EXISTS accounts, history;"
                 f"CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL);"
                 f"CREATE TABLE history (account BIGINT NOT NULL, amount BIGINT NOT NULL);"
                 f"INSERT INTO accounts SELECT i, {BALANCE} FROM generate_series(0, {rows - 1}) AS s(i);"
                 f"VACUUM ANALYZE accounts; CHECKPOINT")
        script = self.folder / f"{kind}.sql"
        script.write_text(SCRIPTS[kind])
        options = f"-c synchronous_commit={'on' if is_synchronous else 'off'}"
        threads = min(clients, os.cpu_count() or 1)
        bench = ["pgbench", "-n", "-M", "prepared", "-c", clients, "-j", threads, "-D", f"rows={rows}", "-f", script]
        self.run(*bench, "-T", max(1, round(seconds / 5)), options=options)
        before = self.counts()
        said = self.run(*bench, "-T", max(1, round(seconds)), options=options)
        found = re.search(r"^tps = ([0-9.]+)", said, re.M)
        failed = re.search(r"number of failed transactions: (\d+)", said)
        if not found or (failed and int(failed[1])):
            sys.exit(f"pgbench said:\n{said}")
        commits, syncs = (now - then for now, then in zip(self.counts(), before))
        return {"per_second": float(found[1]), "per_sync": commits / syncs if syncs else None}

    def counts(self):
        return [int(n) for n in self.ask("SELECT xact_commit, (SELECT wal_sync FROM pg_stat_wal) FROM pg_stat_database "
                                         "WHERE datname = 'postgres'").split("|")]


def has_user(name):
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


def of_nearside(a, nearside, folder, run):
    """A function that measures Nearside, with commits that wait or not: kinds, their rates, commits per sync."""
    def measure(mode):
        with tempfile.TemporaryDirectory(dir=folder, prefix="nearside-") as own:
            result = pathlib.Path(own) / "nearside.json"
            run([nearside, "bench", "oltp", "--database", pathlib.Path(own) / "db", "--synchronous-commit", mode,
                 "--clients", a.clients, "--rows", a.rows, "--seconds", a.seconds, "--threads", a.threads,
                 "--json", result])
            for figure in json.loads(result.read_text())["figures"]:
                yield figure["name"], figure["value"], figure["per_sync"]
    return measure


def race(a, folder, nearside, programs):
    """All rounds, the engines in turn: PostgreSQL's version, and a figure for each kind and mode."""
    def server(mode):
        with Server(programs, folder) as server:
            for kind in SCRIPTS:
                one = server.measure(kind, a.clients, a.rows, a.seconds, mode == "on")
                yield kind, one["per_second"], one["per_sync"]

    with Server(programs, folder) as first:
        version = first.version()
    cells = [(mode, kind) for mode in ("on", "off") for kind in SCRIPTS]
    rates = {engine: {cell: [] for cell in cells} for engine in ("nearside", "postgres")}
    syncs = {engine: {cell: [] for cell in cells} for engine in rates}
    for number in range(a.rounds):
        for mode in ("on", "off"):
            both = [("nearside", nearside), ("postgres", server)]
            for engine, measure in both if number % 2 == 0 else reversed(both):
                for kind, per_second, per_sync in measure(mode):
                    rates[engine][mode, kind].append(per_second)
                    if per_sync:
                        syncs[engine][mode, kind].append(per_sync)
                print(f"round {number + 1}: {engine}, synchronous_commit = {mode}", file=sys.stderr, flush=True)
    figures = []
    for cell in cells:
        ours, theirs = (statistics.median(rates[engine][cell]) for engine in rates)
        shared = [statistics.median(syncs[engine][cell]) if syncs[engine][cell] else None for engine in rates]
        figures.append({"synchronous_commit": cell[0], "kind": cell[1], "nearside": rates["nearside"][cell],
                        "postgres": rates["postgres"][cell], "ratio": ours / theirs, "per_sync": shared})
    return version, figures


def table(a, figures, where, version):
    print(f"Transactions per second of {a.clients} clients, {a.rows} accounts, {where}, medians of {a.rounds} rounds, "
          f"beside PostgreSQL {version}")
    print(f"{'synchronous_commit':<19} {'transaction':<12} {'nearside':>12} {'postgres':>12} {'ratio':>8} "
          f"{'per sync':>10} {'postgres':>10}")
    for figure in figures:
        ours, theirs = (statistics.median(figure[engine]) for engine in ("nearside", "postgres"))
        shared = "".join(f"{per_sync:>11.1f}" if per_sync else f"{'-':>11}" for per_sync in figure["per_sync"])
        print(f"{figure['synchronous_commit']:<19} {figure['kind']:<12} {ours:>12.0f} {theirs:>12.0f} "
              f"{figure['ratio']:>8.2f}{shared}")
