"""Measures the benefit of further title fields, with separate or shared rows of letter n-grams.

    python -m examples.studies.title_fields --data wikispeedia --seeds 3

The log has clicks from one Wikipedia article to the next. The name of the first article is the
query. The name of the second is the title; its subject and the first `--words` words of its text
are further fields. A fifth of the queries is held out for the test. For each of them, all other
articles are ranked by the cosine, without the prior, and the number of clicks is the grade.
Prints a Markdown table: the mean over seeds, half of their range, and the number of parameters.
With `--folder`, data and runs are kept, and the same command resumes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, Judgment, judgments_from_clicks, read_corpus
from dssm_tf.tables.layout import Layout
from dssm_tf.tables.splits import BENCHMARK_SPLIT, is_held_out
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.rules import FOLDED
from examples.studies.commands import run_dssm

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
VARIANTS = (  # title fields, and whether the fields share the rows of the first matrix
    ("title", "shared"),
    ("title,subject", "shared"),
    ("title,subject", "own"),
    ("title,subject,text", "shared"),
    ("title,subject,text", "own"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="directory of the two tables")
    parser.add_argument("--words", type=int, default=30, help="words of each text")
    parser.add_argument("--config", default="dssm", help="name or file of a configuration")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="directory that keeps data and runs")
    options = parser.parse_args(argv)
    load_tensorflow()
    with nullcontext(options.folder) if options.folder else TemporaryDirectory() as folder:
        Path(folder).mkdir(exist_ok=True)
        write_log(options.data, Path(folder), options.words)
        for line in _table(options, Path(folder)):
            sys.stdout.write(line + "\n")


def write_log(data: Path, folder: Path, words: int) -> None:
    """Writes `train.tsv`, `test.tsv` and `corpus.tsv` with the columns title, subject and text."""
    articles = {
        title: f"{title}\t{subject}\t{' '.join(text.split()[:words])}"
        for _, title, subject, text in _rows(data / "docs_first200.tsv")
    }
    _write(folder / "corpus.tsv", "doc_id\ttitle\tsubject\ttext", (
        f"{number}\t{article}" for number, article in enumerate(articles.values())
    ))  # fmt: skip
    clicks = [row for row in _rows(data / "nav_clicks.tsv") if row[1] in articles]
    for split in ("train", "test"):
        _write(folder / f"{split}.tsv", "query\ttitle\tsubject\ttext\tclicks", (
            f"{start}\t{articles[clicked]}\t{count}"
            for start, clicked, count in clicks
            if is_held_out(start, 0.2, BENCHMARK_SPLIT) == (split == "test")
        ))  # fmt: skip


def _rows(path: Path) -> Iterator[list[str]]:
    for line in path.read_text("utf-8").splitlines()[1:]:
        yield line.split("\t")


def _write(path: Path, header: str, rows: Iterator[str]) -> None:
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")


def _table(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    yield "| fields | rows | NDCG@1 | @3 | @10 | bm25: @1 | @3 | @10 | parameters |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for fields, rows in VARIANTS:
        data = folder / f"data-{fields}-{rows}"
        if not data.exists():
            log, corpus = folder / "train.tsv", folder / "corpus.tsv"
            run_dssm("preprocess", "--input", log, "--corpus", corpus, "--title-fields", fields,
                  "--field-rows", rows, "--output", data)  # fmt: skip
        layout = Layout(title_fields=tuple(fields.split(",")))
        titles = read_corpus(folder / "corpus.tsv", layout)
        judgments = _judgments(folder / "test.tsv", titles)
        bm25 = BASELINES["bm25"]().fit([], [entry.title for entry in titles])
        scores: dict[str, list[list[float]]] = {"bm25": [], "model": []}
        parameters = 0
        for seed in range(options.seeds):
            run = data.with_name(f"run-{data.name}-{options.config}-{seed}")
            settings = ["ranking.prior=0", f"training.seed={seed}"]
            train(load_config(find_config(options.config), settings), data, run)
            model = SemanticRanker.load(run)
            parameters = model.model.count_params()
            evaluation = evaluate(
                {"bm25": _WithoutOwnTitle(bm25), "model": _WithoutOwnTitle(model)},
                judgments,
                titles,
                metrics=CUTOFFS,
            )
            for name, values in scores.items():
                values.append(
                    [float(np.nanmean(evaluation.values[name][metric])) for metric in CUTOFFS]
                )
            sys.stderr.write(f"{fields}, {rows}, seed {seed}: {np.round(scores['model'][-1], 4)}\n")
        means, ranges = np.mean(scores["model"], 0), np.ptp(scores["model"], 0)
        cells = [
            f"{mean:.3f} ± {half_range:.3f}"
            for mean, half_range in zip(means, ranges / 2, strict=True)
        ]
        cells += [f"{value:.3f}" for value in scores["bm25"][0]]
        yield f"| {fields} | {rows} | {' | '.join(cells)} | {parameters / 1e6:.1f}M |"


def _judgments(test: Path, titles: Sequence[CorpusTitle]) -> list[Judgment]:
    """Judgments from the test clicks."""
    ids = {entry.title.split(SEPARATOR)[0]: entry.doc_id for entry in titles}
    clicks = ((row[0], ids[row[1]], float(row[-1])) for row in _rows(test))
    return judgments_from_clicks(clicks, FOLDED, {entry.doc_id: entry.title for entry in titles})


class _WithoutOwnTitle:
    """Ranks an article's own title last, because no click leads from it to itself."""

    name = "without own title"

    def __init__(self, ranker: Any) -> None:
        self._ranker = ranker

    def score(self, query: str, titles: Sequence[str]) -> Any:
        """Scores of the titles for a query."""
        return self.score_matrix([query], titles)[0]

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Any:
        """Scores `(queries, titles)`."""
        scores = np.array(self._ranker.score_matrix(queries, titles))
        names = np.array([title.split(SEPARATOR)[0] for title in titles])
        return np.where(np.array(queries)[:, None] == names, scores.min() - 1, scores)


if __name__ == "__main__":
    main()
