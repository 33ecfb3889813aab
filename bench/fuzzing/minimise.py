"""Makes a finding small: pieces of the query, statements, rows and columns go as long as the finding stays."""

import re
import time

from fuzzing.engines import Pair
from fuzzing.compare import difference
from fuzzing.tree import EMPTY, OURS, Items, Node, walk

SIMPLE = {
    "int": "1", "decimal": "1.5", "float": "CAST('1' AS DOUBLE)", "text": "'a'", "bool": "true", "date": "DATE '2020-01-01'",
    "timestamp": "TIMESTAMP '2020-01-01 00:00:00'", "time": "TIME '00:00:00'",
}


def shape(message):
    """A message without its numbers and names, to tell whether two errors are the same one."""
    return re.sub(r"'[^']*'|[\w.]*\d[\w.]*", "#", message)[:80]


class Minimiser:
    def __init__(self, binary, setup, query, found, threads, seconds, limit_s):
        self.binary, self.setup, self.query, self.threads, self.seconds = binary, setup, query, threads, seconds
        self.found, self.last = found, found
        self.ends = time.monotonic() + limit_s
        self.pair, self.tries = None, 0

    def stays(self, data_changed):
        """Whether the finding is still there."""
        self.tries += 1
        if data_changed and self.pair:
            self.pair.close()
            self.pair = None
        try:
            self.pair = self.pair or Pair(self.binary, self.setup, self.threads, self.seconds)
        except Exception:  # DuckDB refuses what is left of the set-up.
            return False
        theirs, ours = self.pair.run(self.query)
        found = difference(self.query, ours, theirs) if ours else None
        if not found or found.known or found.kind != self.found.kind:
            return False
        if found.kind in ("error", "crash") and shape(found.message) != shape(self.found.message):
            return False
        self.last = found
        return True

    def out_of_time(self):
        return time.monotonic() > self.ends

    def minimise(self):
        """The difference that the smallest version has, or None where it did not come again."""
        if not self.stays(True):
            return None
        # Data first: after an error, each try begins with the whole set-up.
        steps = [self.without_statements, self.without_pieces, self.without_rows, self.without_columns]
        size = None
        while size != self.size() and not self.out_of_time():
            size = self.size()
            for step in steps:
                step()
        if self.pair:
            self.pair.close()
        return self.last

    def size(self):
        return len(self.query.text(OURS)) + sum(map(len, self.setup.texts(OURS)))

    # The query.

    def replacements(self, node):
        """Smaller things that could stand for a node of the query, the smallest first."""
        if node.kind is None or node.kind == "query" and node is self.query:
            return []
        inner = [below for below in walk(node) if below is not node and below.kind == node.kind][:5]
        simple = SIMPLE.get(node.kind)
        return ([Node(node.kind, simple)] if simple and simple != node.text(OURS) else []) + inner

    def attempt(self, nodes, replacement):
        """Puts something in the place of nodes, for good if the finding stays."""
        before = [node.stand_in for node in nodes]
        for node in nodes:
            node.stand_in = replacement
        if self.stays(False):
            return True
        for node, old in zip(nodes, before):
            node.stand_in = old
        return False

    def without_pieces(self):
        for node in list(walk(self.query)):
            if self.out_of_time():
                return
            if node.stand_in is not None:
                continue
            # What is fixed keeps the answer from depending on the order of rows; an error is one in any order.
            if isinstance(node, Items) and not (node.fixed and self.found.kind == "wrong"):
                for part in node.parts:
                    if part.stand_in is not EMPTY:
                        self.attempt([part] + ([part.partner] if part.partner else []), EMPTY)
            for replacement in self.replacements(node):
                if self.attempt([node], replacement):
                    break

    # The data.

    def shorter(self, whole, put):
        """Takes runs out of a list, long ones first; `put` makes a list the one in use."""
        size = len(whole)
        while size and not self.out_of_time():
            start = 0
            while start < len(whole) and not self.out_of_time():
                rest = whole[:start] + whole[start + size:]
                put(rest)
                if self.stays(True):
                    whole = rest
                else:
                    start += size
            size //= 2
        put(whole)

    def without_statements(self):
        for table in list(self.setup.tables):
            before = self.setup.tables, self.setup.statements
            self.setup.tables = [other for other in before[0] if other is not table]
            self.setup.statements = [statement for statement in before[1] if statement.table is not table]
            if not self.stays(True):
                self.setup.tables, self.setup.statements = before
        self.shorter(self.setup.statements, lambda rest: setattr(self.setup, "statements", rest))

    def without_rows(self):
        for statement in self.setup.statements:
            if statement.rows:
                self.shorter(statement.rows, lambda rest, statement=statement: setattr(statement, "rows", rest))
            while statement.series and statement.count > 1:
                before, statement.count = statement.count, statement.count // 2
                if self.out_of_time() or not self.stays(True):
                    statement.count = before
                    break

    def without_columns(self):
        for table in self.setup.tables:
            for column, _ in table.columns:
                if column not in table.dropped and len(table.dropped) + 1 < len(table.columns) and not self.out_of_time():
                    table.dropped.add(column)
                    if not self.stays(True):
                        table.dropped.remove(column)
