"""What two answers to a statement are: alike, another one, refused; and which statements are counted apart."""

import re
from decimal import Decimal

KINDS = ["alike", "digits", "order", "different", "accepts", "refused", "error", "follows", "apart"]

# Why statements are counted apart, and how they are told.
APART = [(why, re.compile(pattern, re.I | re.S)) for why, pattern in [
    ("EXPLAIN", r"^\s*explain\b"),
    ("functions in a language, aggregates, operators, casts and the like",
     r"^\s*(create|drop|alter)\s+(or\s+replace\s+)?(function|procedure|aggregate|operator|cast|language"
     r"|transform|routine|access|conversion|statistics"
     r"|text\s+search|collation|extension|foreign|server|publication|subscription|event|tablespace|large)\b"
     r"|^\s*(do|call|security)\b"),
    ("triggers and rules", r"^\s*(create|drop|alter)\s+(or\s+replace\s+)?(constraint\s+)?(trigger|rule)\b"
                           r"|(enable|disable)\s+(\w+\s+)?(trigger|rule)\b"),
    ("roles and rights", r"^\s*(create|drop|alter)\s+(role|user|group|policy)\b|^\s*(grant|revoke|reassign"
                         r"|set\s+(session\s+)?(role|authorization)"
     r"|reset\s+(role|session))\b|\bowner\s+to\b|row\s+level\s+security"),
    ("types of users", r"^\s*(create|drop|alter)\s+type\b"),
    ("storage and upkeep", r"^\s*(vacuum|analyze|cluster|reindex|checkpoint|lock|load)\b|\bset\s+(storage"
                           r"|statistics|compression|logged|unlogged)\b"
     r"|\btablespace\b|^\s*alter\s+(table|index)\s.*\bset\s*\("),
    ("settings", r"^\s*(set|reset|show)\s+(local\s+|session\s+)?(?!transaction|session|constraints|search_path)\w+"),
    ("inheritance and partitions", r"\binherits\s*\(|\bpartition\s+(by\s+(list|range|hash)|of)\b|\b(attach"
                                   r"|detach)\s+partition\b|\b(no\s+)?inherit\b"),
    ("what the inside looks like", r"\bpg_(?!typeof|sleep|catalog\.)\w+|\b(ctid|xmin|xmax|cmin|cmax|tableoid)\b"
                                   r"|\binformation_schema\b|\bpg_catalog\.|::reg\w+\b"),
    ("types of geometry, networks, ranges, bits, search, xml and money",
     r"\b(point|box|polygon|lseg|path|circle|line|inet|cidr|macaddr8?|\w+range|tsvector|tsquery|xml|money"
     r"|bit(\s+varying)?|varbit|txid\w*|pg_lsn|xid8?"
     r"|cid|oidvector|int2vector|aclitem|xpath\w*|xmltable|anyelement|anyarray)\b(?!\s*(,|\.))|\bB'[01]+'|<->"),
]]

CREATES = re.compile(r"\s*create\s+(?:or\s+replace\s+)?(?:global\s+|local\s+)?(?:temp\w*\s+|unlogged\s+"
                     r"|recursive\s+|unique\s+|constraint\s+|foreign\s+)*"
                     r"(?:table|view|materialized\s+view|function|type|domain|sequence|schema|aggregate|operator"
                     r"|procedure|rule|trigger|index|role|user|cast)"
                     r"\s+(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?(\"[^\"]*\"|[\w.]+|[^\w\s(]+)", re.I)
WRITES = re.compile(r"\s*(?:insert\s+into|update|delete\s+from|copy|alter\s+table(?:\s+only)?(?:\s+if\s+exists)?"
                    r"|merge\s+into|declare|prepare|alter\s+\w+"
                    r"|truncate(?:\s+table)?)\s+([\w.]+)", re.I)
NUMBER = re.compile(r"^-?\d+(\.\d+)?([eE][-+]?\d+)?$")


def is_near(a, b):
    """The same number with other digits behind the point."""
    if a == b:
        return True
    if a is None or b is None or not NUMBER.match(a) or not NUMBER.match(b) or not re.search("[.e]", a + b):
        return False
    x, y = Decimal(a), Decimal(b)
    return abs(x - y) <= max(abs(x) * Decimal("1e-4"), Decimal("0.001"))


def without_texts(sql):
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


def outside_of_brackets(sql):
    out, depth = [], 0
    for c in without_texts(sql):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            out.append(c)
    return "".join(out)


def of_answers(theirs, ours, sql):
    if theirs.rows is None or ours.rows is None:
        return "alike" if (theirs.rows is None) == (ours.rows is None) else "different"
    if theirs.rows == ours.rows:
        return "alike"
    if len(theirs.rows) == len(ours.rows):
        key = lambda row: tuple((value is None, value or "") for value in row)
        if sorted(map(key, theirs.rows)) == sorted(map(key, ours.rows)):
            return "order" if re.search(r"\border\s+by\b", outside_of_brackets(sql), re.I) else "alike"
        if all(len(x) == len(y) and all(map(is_near, x, y)) for x, y in zip(theirs.rows, ours.rows)):
            return "digits"
    return "different"


class Judge:
    """Judges the statements of one file. What could not be made or written is remembered, since others ask for it."""

    def __init__(self):
        self.lacking = set()

    def kind(self, theirs, ours, sql):
        kind, why = self.judged(theirs, ours, sql)
        made, written = CREATES.match(sql), WRITES.match(sql)
        if made and theirs.error is None:
            name = made.group(1).strip('"').lower()
            (self.lacking.add if ours.error else self.lacking.discard)(name)
        if written and theirs.error is None and ours.error:
            self.lacking.add(written.group(1).lower())
        return kind, why

    def judged(self, theirs, ours, sql):
        if theirs.error and ours.error:
            return "alike", ""
        kind = "different" if theirs.error or ours.error else of_answers(theirs, ours, sql)
        if kind == "alike":
            return kind, ""
        bare = without_texts(sql)
        for why, pattern in APART:
            if pattern.search(bare) or (why.startswith("types of") and pattern.search(sql)):
                return "apart", why
        lacking = set(re.findall(r"[\w.]+", sql.lower())) & self.lacking
        if lacking:
            return "follows", ", ".join(sorted(lacking))
        if ours.error:
            return ("refused" if ours.code == "0A000" else "error"), ours.error
        if theirs.error:
            if theirs.code == "42501" or re.search("child table|partition|inherit|rule", theirs.error):
                return "apart", "inheritance, rules and rights"
            return "accepts", theirs.error
        return kind, ""
