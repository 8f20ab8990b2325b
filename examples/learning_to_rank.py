r"""Adds the parts of a model's score to the features of a LightGBM ranker (LambdaRank).

    pip install lightgbm
    dssm features --model RUN --judgments judgments.tsv --out features.txt
    python examples/learning_to_rank.py --features features.txt --catalog corpus.tsv \
        --columns price,stock --ranker ranker.txt

The features of the ranker are numeric columns of the catalog (in your application: the features of
your own ranker) and the parts of the score. Both are joined by the id of the title. The ranker
learns on four of five queries. The output compares NDCG@10 on the others: the model's score alone,
the ranker with the columns alone, and the ranker with both. The model must not have learned from
these judgments.

`--ranker` saves the last ranker, as text that LightGBM and plugins of search engines read.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dssm_tf import UserError

_TEST_EVERY = 5  # every fifth query is for the test
_MAX_LABEL = 4  # LightGBM's labels are whole numbers from 0 to this one


class Features(NamedTuple):
    """The content of a file of `dssm features`.

    Attributes:
        names: the names of the features.
        values: `(rows, features)`.
        grades: `(rows,)`.
        queries: the number of each row's query, `(rows,)`; all rows of a query are adjacent.
        doc_ids: the id of each row's title.
    """

    names: list[str]
    values: NDArray[np.float64]
    grades: NDArray[np.float64]
    queries: NDArray[np.int64]
    doc_ids: list[str]


def read_features(path: Path) -> Features:
    """Reads a file that `dssm features` wrote.

    Raises:
        UserError: a line has another format.
    """
    lines = path.read_text("utf-8").splitlines()
    names = [name.partition(":")[2] for name in lines[0].removeprefix("# ").split()]
    values, grades, queries, doc_ids = [], [], [], []
    for number, line in enumerate(lines[1:], 2):
        row, _, ids = line.partition(" # ")
        try:
            grade, query, *cells = row.split()
            values.append([float(cell.partition(":")[2]) for cell in cells])
            grades.append(float(grade))
            queries.append(int(query.removeprefix("qid:")))
            doc_ids.append(ids.split("\t")[1])
        except (ValueError, IndexError):
            raise UserError(
                f"{path}:{number}: {line!r:.80}; expected a line of dssm features."
            ) from None
    return Features(names, np.array(values), np.array(grades), np.array(queries), doc_ids)


def read_columns(path: Path, names: Sequence[str], doc_ids: Sequence[str]) -> NDArray[np.float64]:
    """Numeric columns of a catalog for some titles, `(rows, names)`; missing numbers are NaN."""
    with path.open(encoding="utf-8", newline="") as file:
        numbers = {
            row["doc_id"]: [float(row[name] or "nan") for name in names]
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        }
    missing = [float("nan")] * len(names)
    return np.array([numbers.get(doc_id, missing) for doc_id in doc_ids]).reshape(-1, len(names))


def train(features: NDArray[np.float64], rows: Features, is_train: NDArray[np.bool_]) -> Any:
    """Trains LambdaRank on some rows.

    Args:
        features: `(rows, features)`.
        rows: grades and queries of the rows.
        is_train: `(rows,)`, which rows to learn from; all rows of a query or none.
    """
    import lightgbm

    max_grade = max(_MAX_LABEL, rows.grades.max())
    labels = np.rint(rows.grades * _MAX_LABEL / max_grade).astype(int)
    counts = np.unique(rows.queries[is_train], return_counts=True)[1]
    ranker = lightgbm.LGBMRanker(
        n_estimators=60, num_leaves=15, learning_rate=0.05, min_child_samples=5, random_state=1,
        deterministic=True, n_jobs=1, verbose=-1,
    )  # fmt: skip
    return ranker.fit(features[is_train], labels[is_train], group=counts)


def mean_ndcg(
    scores: NDArray[np.float64], rows: Features, is_test: NDArray[np.bool_], at: int = 10
) -> float:
    """The mean NDCG@`at` of the test queries that have a grade above 0, with gains 2^grade - 1."""
    values = []
    for query in np.unique(rows.queries[is_test]):
        in_query = rows.queries == query
        gains = 2 ** rows.grades[in_query] - 1
        discounts = 1 / np.log2(np.arange(2, 2 + min(at, len(gains))))
        ideal = (np.sort(gains)[::-1][:at] * discounts).sum()
        ranked = gains[np.argsort(-scores[in_query], kind="stable")][:at]
        values += [(ranked * discounts).sum() / ideal] if ideal > 0 else []
    return float(np.mean(values))


def main(argv: Sequence[str] | None = None) -> int:
    """Trains and compares; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--features", type=Path, required=True, help="output of dssm features")
    parser.add_argument("--catalog", type=Path, help="TSV with doc_id and numeric columns")
    parser.add_argument("--columns", default="", help="numeric columns of the catalog")
    parser.add_argument("--ranker", type=Path, help="file to write the ranker to")
    options = parser.parse_args(argv)
    try:
        import lightgbm  # noqa: F401 - fails before any work
    except ModuleNotFoundError:
        sys.stderr.write("learning_to_rank: install LightGBM: pip install lightgbm\n")
        return 1
    rows = read_features(options.features)
    is_test = rows.queries % _TEST_EVERY == 0
    names = [name for name in options.columns.split(",") if name]
    catalog_features = np.zeros((len(rows.grades), 0))
    if names:
        catalog_features = read_columns(options.catalog, names, rows.doc_ids)
    score = rows.values[:, rows.names.index("score")]
    results = {"the model's score": score}
    if names:
        results[f"LightGBM: {', '.join(names)}"] = train(catalog_features, rows, ~is_test).predict(
            catalog_features
        )
    all_features = np.hstack([catalog_features, rows.values])
    ranker = train(all_features, rows, ~is_test)
    results[f"LightGBM: {', '.join([*names, *rows.names])}"] = ranker.predict(all_features)
    for name, scores in results.items():
        sys.stdout.write(f"NDCG@10 {mean_ndcg(scores, rows, is_test):.3f}  {name}\n")
    if options.ranker is not None:
        ranker.booster_.save_model(options.ranker)
    return 0


if __name__ == "__main__":
    sys.exit(main())
