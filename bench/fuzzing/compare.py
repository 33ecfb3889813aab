"""Whether two answers are the same, and whether a difference is one that the dialects have."""

import collections
import datetime
import decimal
import math
import re

from fuzzing.engines import SETUP
from fuzzing.tree import order_names

# Errors of Nearside where DuckDB answers. Each is a rule of docs/sql.md, not a fault.
KNOWN_ERRORS = {
    "overflow is an error; DuckDB widens sums and some products": r"overflow|does not fit|too large|out of range",
    "division by zero is an error; DuckDB gives NULL": r"division by zero|divide by zero",
    "subqueries that no join can stand for are refused":
        r"does not support logical expression (ScalarSubquery|Exists|InSubquery)|is not supported where the query refers to columns outside",
}
FLOATS = ("DOUBLE", "FLOAT")
INTEGERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?$")
# Sums of floats depend on the order of rows.
RELATIVE = {"DOUBLE": 1e-9, "FLOAT": 1e-5}
ABSOLUTE = 1e-6

Difference = collections.namedtuple("Difference", "kind message known", defaults=(None,))


def known_error(message):
    if message.startswith(SETUP):
        return None
    return next((reason for reason, pattern in KNOWN_ERRORS.items() if re.search(pattern, message, re.IGNORECASE)), None)


def moment(value):
    """Dates and timestamps as text; a timestamp at midnight as its date, since CASE and COALESCE of both may give either."""
    text = str(value)
    day, _, clock = text.partition(" ")
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    return day if clock in ("", "00:00:00") else f"{day} {clock}"


def theirs_as_value(value, of):
    if value is None or isinstance(value, bool):
        return value
    if of in FLOATS:
        return float(value)
    if isinstance(value, int):
        return decimal.Decimal(value)
    if isinstance(value, datetime.date):
        return moment(value)
    if isinstance(value, datetime.time):
        return value.isoformat()
    return value.hex() if isinstance(value, bytes) else value


def ours_as_value(text, of):
    """A field of ours, read as the type that DuckDB has; text that is no such value stays text, and so differs."""
    if text is None:
        return None
    try:
        if of in FLOATS:
            return float(text)
        if of == "BOOLEAN":
            return {"true": True, "false": False}.get(text, text)
        if of.startswith("DECIMAL") or INTEGERS.match(of):
            return decimal.Decimal(text)
    except (ValueError, decimal.InvalidOperation):
        return text
    return moment(text) if of == "DATE" or of.startswith("TIMESTAMP") else text


def same(ours, theirs, of, text):
    """`text` is ours as printed: a decimal, where DuckDB's avg is DOUBLE, has been rounded to its last digit."""
    if of.startswith("DECIMAL(38,") and isinstance(ours, decimal.Decimal) and isinstance(theirs, decimal.Decimal):
        # Where types meet that need more digits than 38, DuckDB gives up some after the point.
        return abs(ours - theirs) <= decimal.Decimal((0, (5,), -int(of[11:-1]) - 1))
    if not (isinstance(ours, float) and isinstance(theirs, float)):
        return type(ours) is type(theirs) and ours == theirs
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    digits = len(text.rpartition(".")[2]) if "." in text and "e" not in text.lower() else 9
    allowed = max(ABSOLUTE, 10.0 ** -digits if digits >= 4 else 0, RELATIVE[of] * max(abs(ours), abs(theirs)))
    return ours == theirs or abs(ours - theirs) <= allowed


def rank(value):
    """Something to sort by, whatever the value."""
    if isinstance(value, float):
        return (1, math.inf if math.isnan(value) else value)
    return (0, "") if value is None else (1, value) if isinstance(value, decimal.Decimal) else (2, str(value))


class Rows:
    """The rows of both, as values, with exact columns first when they are sorted."""

    def __init__(self, ours, theirs):
        self.types = theirs.types
        self.ours = [[(ours_as_value(v, of), v) for v, of in zip(row, self.types)] for row in ours.rows]
        self.theirs = [[(theirs_as_value(v, of), v) for v, of in zip(row, self.types)] for row in theirs.rows]
        self.order = sorted(range(len(self.types)), key=lambda at: self.types[at] in FLOATS)

    def key(self, row):
        return [rank(row[at][0]) for at in self.order]

    def alike(self, mine, other):
        return all(same(a, b, of, text) for (a, text), (b, _), of in zip(mine, other, self.types))

    def unmatched(self):
        """A row of ours and one of theirs that have no partner, or None."""
        ours, theirs = sorted(self.ours, key=self.key), sorted(self.theirs, key=self.key)
        left = [(mine, other) for mine, other in zip(ours, theirs) if not self.alike(mine, other)]
        # Floats that differ in their last digits may have been sorted apart: look for each one's partner among all that are left.
        others = [other for _, other in left]
        for mine, _ in left:
            partner = next((other for other in others if self.alike(mine, other)), None)
            if partner is None:
                return mine, others[0]
            others.remove(partner)
        return None


def shown(row):
    return "(" + ", ".join("NULL" if text is None else str(text) for _, text in row) + ")"


def difference(query, ours, theirs):
    """How our answer differs from theirs; None where it does not."""
    if ours.fault:
        return Difference(ours.fault, ours.message, known_error(ours.message) if ours.fault == "error" else None)
    if len(ours.names) != len(theirs.names):
        return Difference("wrong", f"{len(ours.names)} columns, DuckDB has {len(theirs.names)}")
    if len(ours.rows) != len(theirs.rows):
        return Difference("wrong", f"{len(ours.rows)} rows, DuckDB has {len(theirs.rows)}")
    rows = Rows(ours, theirs)
    pair = rows.unmatched()
    if pair:
        return Difference("wrong", f"{shown(pair[0])}, DuckDB has {shown(pair[1])}")
    # Rows that are equal in what ORDER BY names may come in any order, but these columns are one sequence.
    for name in order_names(query):
        at = theirs.names.index(name)
        for number, (mine, other) in enumerate(zip(rows.ours, rows.theirs)):
            if not same(mine[at][0], other[at][0], theirs.types[at], str(mine[at][1])):
                return Difference("wrong", f"row {number + 1} in order has {name} = {mine[at][1]}, DuckDB has {other[at][1]}")
    return None
