"""Splits Home Depot's judgments by query into a training log, the catalog and test judgments.

    python -m examples.studies.whole_catalog --data DATA --out OUT

reads `clicks.tsv` and `judgments.tsv` of the folder DATA (not shipped) and writes three tables for
`dssm benchmark`: `clicks.tsv` without the test queries, `corpus.tsv` with every title, and
`judgments.tsv` of the test queries that have a relevant title. Test queries are those whose CRC-32
is a multiple of five. Beside them it writes random samples of the log, `clicks_1000.tsv` and
`clicks_5000.tsv`, and `unknown_words.tsv`: the judgments of test queries with a word of four or
more letters that no title has. Most of these words are typing errors.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from zlib import crc32

from dssm_tf.common.files import atomic_write
from dssm_tf.text.rules import FOLDED

LOG_COLUMNS = ("query", "title", "clicks")
SAMPLE_SIZES = (1000, 5000)
MIN_LETTERS = 4
JUDGMENT_COLUMNS = ("query_id", "query", "doc_id", "title", "grade")


def is_test(query: str) -> bool:
    """Whether a query is for the test and not for training."""
    return crc32(query.encode()) % 5 == 0


def has_unknown_word(query: str, known: Collection[str]) -> bool:
    """Whether a word of four or more letters, and nothing but letters, is not in `known`."""
    words = (word for word in FOLDED.words(query) if word.isalpha())
    return any(len(word) >= MIN_LETTERS and word not in known for word in words)


def split(data: Path, out: Path) -> None:
    """Writes the tables."""
    clicks, judgments = _rows(data / "clicks.tsv"), _rows(data / "judgments.tsv")
    corpus = {row["doc_id"]: row["title"] for row in judgments}
    relevant = {row["query"] for row in judgments if float(row["grade"]) > 0}
    train = (
        (row["query"], row["title"], row["clicks"]) for row in clicks if not is_test(row["query"])
    )
    log = list(train)
    _write(out / "clicks.tsv", LOG_COLUMNS, log)
    for size in SAMPLE_SIZES:
        sample = random.Random(0).sample(log, min(size, len(log)))
        _write(out / f"clicks_{size}.tsv", LOG_COLUMNS, sample)
    _write(out / "corpus.tsv", ("doc_id", "title"), sorted(corpus.items()))
    test = (row for row in judgments if is_test(row["query"]) and row["query"] in relevant)
    rows = [[row[column] for column in JUDGMENT_COLUMNS] for row in test]
    _write(out / "judgments.tsv", JUDGMENT_COLUMNS, rows)
    known = {word for title in corpus.values() for word in FOLDED.words(title)}
    unknown = (row for row in rows if has_unknown_word(row[1], known))
    _write(out / "unknown_words.tsv", JUDGMENT_COLUMNS, unknown)


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
