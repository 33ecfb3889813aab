"""`compare server`: `nearside serve` beside PostgreSQL, the same clients, folders of one disk, by turns.

What is measured: transactions per second of pgbench's own scripts and the time of cpus that the server itself takes
for each; range scans of few and of many clients; rows that leave by binary COPY; what waiting connections hold."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import oltp

TICK = os.sysconf("SC_CLK_TCK")
# pgbench's names of its scripts.
SCRIPTS = ["select-only", "simple-update", "tpcb-like"]
# A range of 100 keys of pgbench's table, after the set-up of VLDB 2015, section 6.1.
RANGES = ("\\set first random(1, 100000 * :scale - 100)\n"
          "SELECT sum(abalance), count(*) FROM pgbench_accounts WHERE aid BETWEEN :first AND :first + 99;\n")
# Eight columns of the types that reports have.
WIDE = ("SELECT i::INT AS a, i * 7 AS b, i / 3.0::FLOAT8 AS c, (i % 1000)::SMALLINT AS d, i::REAL AS e, "
        "i % 2 = 0 AS f, "
        "DATE '2020-01-01' + (i % 1000)::INT AS g, TIMESTAMP '2020-01-01' + i * INTERVAL '1 second' AS h "
        "FROM generate_series(1, {rows}) AS s(i)")


class Nearside:
    """A server of our own with a folder, which ends and leaves nothing when the block is left."""

    def __init__(self, binary, programs, folder, threads):
        self.binary, self.programs, self.threads = binary, programs, threads
        self.stack = contextlib.ExitStack()
        own = tempfile.TemporaryDirectory(dir=folder, prefix="nearside-")
        self.folder = pathlib.Path(self.stack.enter_context(own))

    def __enter__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        log = open(self.folder / "log", "w")
        command = [self.binary, "serve", "--database", self.folder / "data", "--listen", f"127.0.0.1:{self.port}",
                   "--socket", self.folder, "--connections", 20000, "--threads", self.threads]
        self.server = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        self.stack.callback(self.end)
        for _ in range(300):
            if (self.folder / f".s.PGSQL.{self.port}").exists():
                return self
            if self.server.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"nearside does not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()

    def __exit__(self, *_):
        self.stack.close()

    def run(self, *command, text=None, options=""):
        words = [str(self.programs / command[0]), *map(str, command[1:])]
        own = {"PGHOST": str(self.folder), "PGPORT": str(self.port), "PGUSER": "nearside", "PGDATABASE": "nearside",
               "PGOPTIONS": options, "LC_ALL": "C"}
        done = subprocess.run(words, input=text, capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **own})
        if done.returncode != 0:
            sys.exit(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def address(self):
        return str(self.folder / f".s.PGSQL.{self.port}"), "nearside"


class Postgres(oltp.Server):
    """PostgreSQL, asked as the other."""

    def address(self):
        return str(self.folder / ".s.PGSQL.5432"), self.user or os.environ.get("USER", "postgres")


def cpu_seconds(process):
    """Of a process and its children, those that have ended too."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    used = sum(int(field) for field in fields[11:15]) / TICK
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            used += sum(cpu_seconds(child) for child in children.read_text().split())
    return used


def resident_bytes(process):
    """Memory of its own that a process and its children hold; what they share is counted once, by its share."""
    held = 0
    for line in open(f"/proc/{process}/smaps_rollup"):
        if line.startswith("Pss:"):
            held = int(line.split()[1]) * 1024
    for children in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            held += sum(resident_bytes(child) for child in children.read_text().split())
    return held


def pgbench(server, words, seconds, clients):
    """Transactions per second, microseconds of the server's cpus for each, and quantiles of their times in ms."""
    threads = min(clients, os.cpu_count() or 1)
    for name in server.folder.glob("times.*"):
        name.unlink()
    before = cpu_seconds(server.server.pid)
    said = server.run("pgbench", "-n", *words, "-c", clients, "-j", threads, "-T", max(1, round(seconds)), "-l",
                      "--log-prefix", server.folder / "times", "--sampling-rate", 0.2)
    # PostgreSQL counts what a process took once it has ended.
    time.sleep(0.3)
    used = cpu_seconds(server.server.pid) - before
    rate = re.search(r"^tps = ([0-9.]+)", said, re.M)
    done = re.search(r"transactions actually processed: (\d+)", said)
    failed = re.search(r"number of failed transactions: (\d+)", said)
    if not rate or not done or not int(done[1]) or (failed and int(failed[1])):
        sys.exit(f"pgbench said:\n{said}")
    times = sorted(int(line.split()[2]) / 1000
                   for name in server.folder.glob("times.*") for line in open(name))
    quantiles = [times[int(len(times) * part)] for part in (0.5, 0.99)] if times else [None, None]
    return {"per_second": float(rate[1]), "cpu_us": used / int(done[1]) * 1e6, "p50_ms": quantiles[0],
            "p99_ms": quantiles[1]}


def copied(server, rows):
    """Bytes per second of a binary COPY, read by a client that does nothing with them, and how many there are."""
    peer, user = server.address()
    with connected(peer, user) as wire:
        text = f"COPY ({WIDE.format(rows=rows)}) TO STDOUT (FORMAT binary)".encode() + b"\0"
        before, begin = cpu_seconds(server.server.pid), time.monotonic()
        wire.sendall(b"Q" + struct.pack(">i", len(text) + 4) + text)
        total, last = 0, b""
        while not last.endswith(b"Z\0\0\0\5I"):
            part = wire.recv(1 << 20)
            if not part:
                sys.exit("the server ended a COPY")
            total += len(part)
            last = (last + part)[-16:]
            if total < 10000 and b"ERROR" in part:
                sys.exit(f"COPY: {part!r}")
        spent = time.monotonic() - begin
        return {"mb_per_second": total / spent / 1e6, "mb": total / 1e6,
                "cpu_s": cpu_seconds(server.server.pid) - before}


@contextlib.contextmanager
def connected(peer, user):
    """A connection to a Unix socket that has come in without a password."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(peer)
        words = b"user\0" + user.encode() + b"\0database\0" + (b"nearside" if user == "nearside" else b"postgres")
        start = struct.pack(">i", 196608) + words + b"\0\0"
        wire.sendall(struct.pack(">i", len(start) + 4) + start)
        last = b""
        while not last.endswith(b"Z\0\0\0\5I"):
            part = wire.recv(65536)
            if not part or part.startswith(b"E"):
                sys.exit(f"the server does not let a client in: {part!r}")
            last = (last + part)[-16:]
        yield wire


def waiting(server, connections):
    """Bytes per connection that waits."""
    peer, user = server.address()
    with contextlib.ExitStack() as stack:
        stack.enter_context(connected(peer, user))
        before = resident_bytes(server.server.pid)
        for _ in range(connections):
            stack.enter_context(connected(peer, user))
        return {"bytes_each": (resident_bytes(server.server.pid) - before) / connections, "connections": connections}


def measures(a):
    """What is measured, by name: functions of a server that has pgbench's tables."""
    for script in SCRIPTS:
        for clients in a.clients:
            if script == "tpcb-like" and clients != 8:
                continue
            words = ["-M", "prepared", "-b", script]
            yield f"{script}, {clients} clients", lambda s, w=words, c=clients: pgbench(s, w, a.seconds, c)
    for mode in ("simple", "extended"):
        words = ["-M", mode, "-b", "select-only"]
        yield f"select-only, {mode}, 8 clients", lambda s, w=words: pgbench(s, w, a.seconds, 8)

    def ranges(server, clients):
        script = server.folder / "ranges.sql"
        script.write_text(RANGES)
        return pgbench(server, ["-M", "prepared", "-D", f"scale={a.scale}", "-f", script], a.seconds, clients)
    for clients in (32, 1024):
        yield f"ranges of 100 rows, {clients} clients", lambda s, c=clients: ranges(s, c)
    yield f"COPY of {a.rows} rows", lambda s: copied(s, a.rows)
    # PostgreSQL has a process for each, so fewer of them say as much.
    yield "waiting connections", lambda s: waiting(s, 10000 if isinstance(s, Nearside) else 500)


def race(a, folder, binary, programs):
    """All rounds, the servers in turn: PostgreSQL's version, and for each measure the figures of both."""
    with Postgres(programs, folder) as first:
        version = first.version()
    figures = {}
    wanted = [(name, does) for name, does in measures(a) if not a.only or re.search(a.only, name)]
    for number in range(a.rounds):
        with Nearside(binary, programs, folder, a.threads) as ours, Postgres(programs, folder) as theirs:
            for server in (ours, theirs):
                server.run("pgbench", "-i", "-q", "-s", a.scale)
            for name, does in wanted:
                both = [("nearside", ours), ("postgres", theirs)]
                for engine, server in both if number % 2 == 0 else reversed(both):
                    figures.setdefault(name, {}).setdefault(engine, []).append(does(server))
                    print(f"round {number + 1}: {engine}, {name}: {figures[name][engine][-1]}", file=sys.stderr,
                          flush=True)
    return version, figures


def table(a, figures, where, version):
    print(f"pgbench at scale {a.scale} over Unix sockets, {where}, medians of {a.rounds} rounds, nearside and "
          f"PostgreSQL {version}")
    for name, both in figures.items():
        for figure in both["nearside"][0]:
            ours, theirs = (median(both[engine], figure) for engine in ("nearside", "postgres"))
            ratio = f"{ours / theirs:>8.2f}" if ours is not None and theirs else f"{'-':>8}"
            shown = "".join(f"{value:>14.2f}" if value is not None else f"{'-':>14}" for value in (ours, theirs))
            print(f"{name:<34} {figure:<14} {shown} {ratio}")


def median(runs, figure):
    found = [run[figure] for run in runs if run[figure] is not None]
    return statistics.median(found) if found else None
