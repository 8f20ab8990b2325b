"""How often the rule of "No good match" is wrong, for two shops and each other's queries.

    python -m tests.benchmarks.no_good_match --index INDEX_A INDEX_B --judgments A.tsv B.tsv

Each index is that of a shop, and the table at the same position has judged queries that its model
has not learned: held-out queries, or later clicks. The rule is that of
`dssm_tf.runtime.good_match`.

false accept    queries of the other shop without a warning
false reject    the shop's own queries with a warning, although one of the first ten titles has a
                grade of at least 1; and the same for the first title
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssm_tf.common.command_line import run
from dssm_tf.retrieval.opening import AnyIndex, open_index
from dssm_tf.tables.judgments import read_judgments

_DEPTH = 10


def queries_of(path: Path) -> dict[str, set[str]]:
    """The ids of the titles with a grade of at least 1, by query."""
    queries: dict[str, set[str]] = {}
    for judgment in read_judgments(path):
        titles = queries.setdefault(judgment.query, set())
        if judgment.grade >= 1:
            titles.add(judgment.doc_id)
    return queries


def measure(
    index: AnyIndex, own: dict[str, set[str]], other: dict[str, set[str]]
) -> dict[str, float]:
    """The error rates of one shop."""
    rejected: dict[str, list[bool]] = {"all": [], "ten": [], "first": []}
    for query, titles in own.items():
        result = index.search(query, _DEPTH)
        ids = [hit.doc_id for hit in result.rankings["semantic"]]
        rejected["all"].append(bool(result.note))
        if not titles.isdisjoint(ids):
            rejected["ten"].append(bool(result.note))
        if not titles.isdisjoint(ids[:1]):
            rejected["first"].append(bool(result.note))
    accepted = [not index.search(query, _DEPTH).note for query in other]
    rates = {f"reject_{name}": sum(rows) / len(rows) for name, rows in rejected.items()}
    counts = {f"queries_{name}": float(len(rows)) for name, rows in rejected.items()}
    return {"accept": sum(accepted) / len(accepted), **rates, **counts}


def main(
    *,
    index: Annotated[tuple[Path, Path], Parameter(consume_multiple=True)],
    judgments: Annotated[tuple[Path, Path], Parameter(consume_multiple=True)],
) -> None:
    """Prints a table."""
    queries = [queries_of(path) for path in judgments]
    write = sys.stdout.write
    write(
        "| index | cut-off | queries of the other shop | false accept | own queries with a right "
        "title in the first ten | false reject | ... as the first title | false reject | all own "
        "queries | with a warning |\n" + "|---" * 10 + "|\n"
    )
    for number, path in enumerate(index):
        opened = open_index(path)
        row = measure(opened, queries[number], queries[1 - number])
        write(
            f"| {path.name} | {opened.model.cutoff:.3f} | {len(queries[1 - number]):,} | "
            f"{row['accept']:.3f} | {row['queries_ten']:,.0f} | {row['reject_ten']:.3f} | "
            f"{row['queries_first']:,.0f} | {row['reject_first']:.3f} | "
            f"{row['queries_all']:,.0f} | {row['reject_all']:.3f} |\n"
        )


if __name__ == "__main__":
    sys.exit(run("no_good_match", main, None))
