"""What `compare oltp` needs of PostgreSQL: a server of its own in a folder, and pgbench."""

import contextlib
import glob
import os
import pathlib
import pwd
import re
import shutil
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
    sys.exit("no PostgreSQL: apt-get install postgresql postgresql-contrib, or name the folder of its programs with --postgres")


class Server:
    """A server of our own, which ends and leaves nothing when the block is left."""

    def __init__(self, programs, folder):
        self.programs = programs
        self.stack = contextlib.ExitStack()
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix="postgres-")))
        self.user = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            self.user = next((name for name in ("postgres", "nobody") if has_user(name)), None)
            shutil.chown(self.folder, self.user)

    def run(self, *command, text=None, options=""):
        words = [str(self.programs / command[0]), *map(str, command[1:])]
        environment = {**os.environ, "PGHOST": str(self.folder), "PGDATABASE": "postgres", "PGOPTIONS": options, "LC_ALL": "C"}
        done = subprocess.run(words, input=text, capture_output=True, text=True, cwd=self.folder, env=environment, user=self.user)
        if done.returncode != 0:
            sys.exit(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def __enter__(self):
        data = self.folder / "data"
        self.run("initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--locale=C")
        settings = {**SETTINGS, "unix_socket_directories": f"'{self.folder}'"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value.strip(chr(39))}")]
        log = open(self.folder / "log", "w")
        self.server = subprocess.Popen([str(self.programs / "postgres"), "-D", str(data), *words], stdout=log, stderr=log,
                                       cwd=self.folder, user=self.user)
        self.stack.callback(self.end)
        for _ in range(300):
            ready = subprocess.run([str(self.programs / "pg_isready"), "-q", "-h", str(self.folder)], user=self.user, cwd=self.folder)
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
        bench = ["pgbench", "-n", "-M", "prepared", "-c", clients, "-j", min(clients, os.cpu_count() or 1), "-D", f"rows={rows}",
                 "-f", script]
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
