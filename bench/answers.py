"""Whether engines gave the same answer: rows as text, compared in any order, numbers by value."""

import csv
import decimal

# Sums of floating point numbers depend on the order of rows.
RELATIVE = decimal.Decimal("1e-9")


def value(text):
    """A number where the text is one; NULL is an empty field, as in CSV."""
    if text in ("", "None"):
        return ""
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return text
    return number if number.is_finite() else text


def alike(one, other):
    if not (isinstance(one, decimal.Decimal) and isinstance(other, decimal.Decimal)) or one == other:
        return one == other
    whole = one == one.to_integral_value() and other == other.to_integral_value()
    return not whole and abs(one - other) <= RELATIVE * max(abs(one), abs(other))


def rank(row):
    return [(0, v, "") if isinstance(v, decimal.Decimal) else (1, 0, v) for v in row]


def difference(engines, one, other):
    """How the second answer differs from the first, in words; None where it does not."""
    one, other = [sorted(([value(v) for v in row] for row in rows), key=rank) for rows in (one, other)]
    if len(one) != len(other):
        return f"{engines[0]} gives {len(one)} rows, {engines[1]} {len(other)}"
    for mine, theirs in zip(one, other):
        if len(mine) != len(theirs) or not all(map(alike, mine, theirs)):
            return f"{engines[0]} has the row {tuple(map(str, mine))}, {engines[1]} {tuple(map(str, theirs))}"
    return None


def compare(query, answers):
    """The engines whose answers were compared with the first one's, and what was different, for a query's answers by engine."""
    engines = list(answers)
    found = [difference((engines[0], e), answers[engines[0]], answers[e]) for e in engines[1:]]
    return engines if len(engines) > 1 else [], [f"{query}: {words}" for words in found if words]


def read(path):
    """The rows of a CSV file below its line of names."""
    with open(path, newline="") as file:
        return list(csv.reader(file))[1:]
