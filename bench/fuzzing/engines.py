"""The two engines: each runs a statement and gives an Answer."""

import collections
import queue
import re
import subprocess
import tempfile
import threading

from fuzzing.tree import DUCK, OURS

# `fault` is None, or "error" (the engine refused), "crash", "hang", "slow" (stopped at its limit), or "too large" to be compared.
Answer = collections.namedtuple("Answer", "fault message names types rows", defaults=(None, "", (), (), ()))

ROWS_MAX = 20_000
DUCK_SECONDS = 5
# How many times its own limit a statement may take before it counts as hanging.
PATIENCE = 2
MEMORY = "2GB"
# How the message begins when it was not the query that failed.
SETUP = "set-up:"
CRASH = re.compile(r"internal error|panick?ed|please report|ARROW|Plan: \[", re.IGNORECASE)
FIELD = re.compile(r'"((?:[^"]|"")*)"(?:,|$)|([^,]*)(?:,|$)')


def fields(line, count):
    """The fields of a line of CSV; None for NULL, which is empty without quotes (the csv module does not tell)."""
    found, at = [], 0
    while len(found) < count:
        match = FIELD.match(line, at)
        found.append(match[1].replace('""', '"') if match[1] is not None else match[2] or None)
        at = match.end()
    return found


class Nearside:
    """A shell that is fed statements. It ends at an error; then the next statement begins with another one."""

    def __init__(self, binary, setup, threads, seconds):
        self.binary, self.setup, self.threads, self.seconds = binary, setup, threads, seconds
        self.process, self.marks = None, 0

    def begin(self):
        command = [self.binary, "sql", "--format", "csv", "--threads", self.threads, "--memory", MEMORY]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, encoding="utf-8")
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.process, self.lines), daemon=True).start()
        for statement in [f"SET nearside.statement_timeout_ms = {self.seconds * 1000}"] + self.setup:
            answer = self.ask(statement)
            if answer.fault:
                return answer._replace(message=f"{SETUP} {statement[:100]}: {answer.message}")
        return None

    @staticmethod
    def read(process, lines):
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    def run(self, statement):
        if self.process is None:
            failed = self.begin()
            if failed:
                self.end()
                return failed
        return self.ask(statement)

    def ask(self, statement):
        self.marks += 1
        mark = f"mark_{self.marks}"
        try:
            self.process.stdin.write(f"{statement};\nSELECT 1 AS {mark};\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.ended()
        lines = []
        while True:
            try:
                line = self.lines.get(timeout=self.seconds * PATIENCE)
            except queue.Empty:
                self.end()
                return Answer("hang", f"no answer after {self.seconds * PATIENCE} s, though the statement's limit is {self.seconds} s")
            if line is None:
                return self.ended()
            if line == mark:
                self.lines.get(timeout=self.seconds * PATIENCE)
                break
            lines.append(line)
        names = lines[0].split(",") if lines else []
        return Answer(names=names, rows=[fields(line, len(names)) for line in lines[1:]])

    def ended(self):
        """What the process said before it ended by itself."""
        status = self.process.wait()
        self.errors.seek(0)
        message = self.errors.read().strip()
        self.end()
        if status != 1 or CRASH.search(message):
            return Answer("crash", f"exit status {status}: {message}")
        return Answer("slow" if "time-out" in message else "error", message)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.detach()
            self.errors.close()
        self.process = None


class Duck:
    """DuckDB, in this process."""

    def __init__(self, setup):
        import duckdb
        self.connection = duckdb.connect(config={"threads": 1, "memory_limit": MEMORY})
        for statement in setup:
            self.connection.execute(statement)

    def run(self, statement):
        stop = threading.Timer(DUCK_SECONDS, self.connection.interrupt)
        stop.start()
        try:
            cursor = self.connection.execute(statement)
            names, types = [c[0] for c in cursor.description], [str(c[1]) for c in cursor.description]
            rows = cursor.fetchmany(ROWS_MAX + 1)
        except Exception as error:  # DuckDB has many kinds of errors, and Python some for values that it cannot hold.
            return Answer("slow" if "INTERRUPT" in str(error).upper() else "error", str(error))
        finally:
            stop.cancel()
        return Answer("too large") if len(rows) > ROWS_MAX else Answer(names=names, types=types, rows=rows)


class Pair:
    """Both engines after the same set-up."""

    def __init__(self, binary, setup, threads, seconds):
        self.duck = Duck(setup.texts(DUCK))
        self.nearside = Nearside(binary, setup.texts(OURS), threads, seconds)

    def run(self, query):
        """DuckDB's answer and ours; ours is None where DuckDB has none to compare with."""
        theirs = self.duck.run(query.text(DUCK))
        return theirs, None if theirs.fault else self.nearside.run(query.text(OURS))

    def close(self):
        self.nearside.end()
        self.duck.connection.close()
