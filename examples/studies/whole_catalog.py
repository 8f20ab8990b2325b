"""Splits Home Depot's judgments by query into a training log, the catalog and test judgments.

    python -m examples.studies.whole_catalog --data DATA --out OUT

reads `clicks.tsv` and `judgments.tsv` of the folder DATA (not shipped) and writes three tables for
`dssm benchmark`: `clicks.tsv` without the test queries, `corpus.tsv` with every title, and
`judgments.tsv` of the test queries that have a relevant title. Test queries are those whose CRC-32
is a multiple of five.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from zlib import crc32

from dssm_tf.common.files import atomic_write

JUDGMENT_COLUMNS = ("query_id", "query", "doc_id", "title", "grade")


def is_test(query: str) -> bool:
    """Whether a query is for the test and not for training."""
    return crc32(query.encode()) % 5 == 0


def split(data: Path, out: Path) -> None:
    """Writes the tables."""
    clicks, judgments = _rows(data / "clicks.tsv"), _rows(data / "judgments.tsv")
    corpus = {row["doc_id"]: row["title"] for row in judgments}
    relevant = {row["query"] for row in judgments if float(row["grade"]) > 0}
    train = (
        (row["query"], row["title"], row["clicks"]) for row in clicks if not is_test(row["query"])
    )
    _write(out / "clicks.tsv", ("query", "title", "clicks"), train)
    _write(out / "corpus.tsv", ("doc_id", "title"), sorted(corpus.items()))
    test = (row for row in judgments if is_test(row["query"]) and row["query"] in relevant)
    rows = ([row[column] for column in JUDGMENT_COLUMNS] for row in test)
    _write(out / "judgments.tsv", JUDGMENT_COLUMNS, rows)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.writelines("\t".join(row) + "\n" for row in [header, *rows])


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the split."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with both tables")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    if not options.data.is_dir():
        parser.error(f"--data: there is no folder {options.data}")
    split(options.data, options.out)


if __name__ == "__main__":
    main()
