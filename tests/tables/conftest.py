"""Files in every format."""

from __future__ import annotations

import csv
import io
import json

import pyarrow
import pytest
from pyarrow import parquet


@pytest.fixture
def write_rows(tmp_path, write):
    """Writes rows of texts or numbers in the format of the file name."""

    def write_rows(name, columns, rows):
        format = name.removesuffix(".gz").rsplit(".", 1)[1]
        if format == "parquet":
            table = dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))
            parquet.write_table(pyarrow.table(table), tmp_path / name)
            return tmp_path / name
        if format == "jsonl":
            objects = (dict(zip(columns, row, strict=True)) for row in rows)
            return write(name, "".join(json.dumps(value) + "\n" for value in objects))
        text = io.StringIO(newline="")
        if format == "csv":
            csv.writer(text).writerows([columns, *rows])
        else:
            text.writelines("\t".join(map(str, row)) + "\n" for row in [columns, *rows])
        return write(name, text.getvalue())

    return write_rows
