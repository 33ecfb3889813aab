"""The table of `compare analytics`: events, with keys of 4 to a million values, dates, NULLs, decimals and doubles.

    generate.py FOLDER ROWS    writes FOLDER/events.parquet; the same rows for the same number of them"""

import datetime
import pathlib
import sys

import numpy
import pyarrow
import pyarrow.parquet as parquet

SEED = 12
BATCH = 1_000_000
REGIONS = ["Africa", "America", "Asia", "Europe", "Oceania"]
CHANNELS = ["phone", "shop", "web", "web-mobile"]
PRODUCTS = [f"product-{number:03}" for number in range(50)]
FIRST_DAY = (datetime.date(2018, 1, 1) - datetime.date(1970, 1, 1)).days
DAYS = 7 * 365


def named(codes, names):
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes), pyarrow.array(names)).cast(pyarrow.string())


def decimals(cents):
    """DECIMAL(12, 2) of non-negative integers: two words each, the low one first."""
    words = numpy.zeros((len(cents), 2), dtype=numpy.int64)
    words[:, 0] = cents
    return pyarrow.Array.from_buffers(pyarrow.decimal128(12, 2), len(cents), [None, pyarrow.py_buffer(words.tobytes())])


def batch(random, first, rows):
    days = (FIRST_DAY + random.integers(0, DAYS, rows)).astype(numpy.int32)
    value = random.integers(0, 1_000_000, rows)
    return pyarrow.table({
        # Not in the order of the file: a window over it has to sort.
        "id": pyarrow.array(first + random.permutation(rows)),
        # g1000 is skewed: the densest of its values has about 3% of the rows, the thinnest 0.05%.
        "g1000": pyarrow.array((1000 * random.random(rows) ** 2).astype(numpy.int32)),
        "g1m": pyarrow.array(random.integers(0, 1_000_000, rows).astype(numpy.int32)),
        "region": named(random.integers(0, len(REGIONS), rows).astype(numpy.int8), REGIONS),
        "channel": named(random.integers(0, len(CHANNELS), rows).astype(numpy.int8), CHANNELS),
        "product": named(random.integers(0, len(PRODUCTS), rows).astype(numpy.int8), PRODUCTS),
        "day": pyarrow.array(days).cast(pyarrow.date32()),
        "v": pyarrow.array(value),
        "n": pyarrow.array(random.integers(0, 100_000, rows), mask=random.random(rows) < 0.05),
        "x": pyarrow.array(random.normal(100.0, 15.0, rows)),
        "price": decimals(random.integers(1, 1_000_000, rows)),
    })


def main():
    folder, rows = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    random = numpy.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "events.part"
    writer = None
    for first in range(0, rows, BATCH):
        table = batch(random, first, min(BATCH, rows - first))
        writer = writer or parquet.ParquetWriter(part, table.schema, compression="zstd")
        writer.write_table(table)
    writer.close()
    part.rename(folder / "events.parquet")


main()
