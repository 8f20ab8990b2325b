"""What further fields of titles are worth, with trigram rows of their own or shared ones.

    python -m examples.studies.title_fields --data wikispeedia --seeds 3

The log is of people who clicked from one Wikipedia article to the next: the article's name is the
query, the other's the title, its subject and the first `--words` words of its text are further
fields. A fifth of the queries is held out; they rank all articles but their own, and their clicks
are the grades. Models rank by the cosine, without the prior of titles.
Prints a Markdown table: the mean over seeds, half of their range, and parameters of the model.
With `--folder` data and runs are kept, and the same command goes on where it was.
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

from dssm_tf.cli import main as dssm
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.tables.layout import Layout
from dssm_tf.text.fields import SEPARATOR

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
CHOICES = (
    ("title", "shared"),
    ("title,subject", "shared"),
    ("title,subject", "own"),
    ("title,subject,text", "shared"),
    ("title,subject,text", "own"),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="of the two tables")
    parser.add_argument("--words", type=int, default=30, help="of each text")
    parser.add_argument("--config", default="dssm")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="keeps data and runs")
    options = parser.parse_args(argv)
    load_tensorflow()
    with nullcontext(options.folder) if options.folder else TemporaryDirectory() as folder:
        Path(folder).mkdir(exist_ok=True)
        write_log(options.data, Path(folder), options.words)
        for line in _table(options, Path(folder)):
            sys.stdout.write(line + "\n")


def write_log(data: Path, folder: Path, words: int) -> None:
    """Writes `log.tsv` and `corpus.tsv`, with the columns title, subject and text."""
    articles = {
        title: f"{title}\t{subject}\t{' '.join(text.split()[:words])}"
        for _, title, subject, text in _rows(data / "docs_first200.tsv")
    }
    _write(folder / "corpus.tsv", "doc_id\ttitle\tsubject\ttext", (
        f"{number}\t{article}" for number, article in enumerate(articles.values())
    ))  # fmt: skip
    _write(folder / "log.tsv", "query\ttitle\tsubject\ttext\tclicks", (
        f"{start}\t{articles[clicked]}\t{clicks}"
        for start, clicked, clicks in _rows(data / "nav_clicks.tsv")
        if clicked in articles
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
    for fields, rows in CHOICES:
        parts, data = (folder / f"{kind}-{fields}-{rows}" for kind in ("parts", "data"))
        if not data.exists():
            of = ("--title-fields", fields)
            log, corpus = folder / "log.tsv", folder / "corpus.tsv"
            _dssm("data", "split", "--clicks", log, "--corpus", corpus, *of,
                  "--hold-out-queries", "0.2", "--out", parts)  # fmt: skip
            log, corpus = parts / "clicks.tsv", parts / "corpus.tsv"
            _dssm("preprocess", "--input", log, "--corpus", corpus, *of,
                  "--field-rows", rows, "--output", data)  # fmt: skip
        names = tuple(fields.split(","))
        titles = read_corpus(parts / "corpus.tsv", Layout(title_fields=names))
        judgments = read_judgments(parts / "judgments.tsv", Layout(title_fields=names))
        bm25 = BASELINES["bm25"]().fit([], [one.title for one in titles])
        found: dict[str, list[list[float]]] = {"bm25": [], "model": []}
        parameters = 0
        for seed in range(options.seeds):
            run = data.with_name(f"run-{data.name}-{options.config}-{seed}")
            settings = ["ranking.prior=0", f"training.seed={seed}"]
            train(load_config(find_config(options.config), settings), data, run)
            model = SemanticRanker.load(run)
            parameters = model.model.count_params()
            evaluation = evaluate(
                {"bm25": _Others(bm25), "model": _Others(model)}, judgments, titles, metrics=CUTOFFS
            )
            for name, values in found.items():
                values.append([float(np.nanmean(evaluation.values[name][one])) for one in CUTOFFS])
            sys.stderr.write(f"{fields}, {rows}, seed {seed}: {np.round(found['model'][-1], 4)}\n")
        means, ranges = np.mean(found["model"], 0), np.ptp(found["model"], 0)
        cells = [f"{m:.3f} ± {half:.3f}" for m, half in zip(means, ranges / 2, strict=True)]
        cells += [f"{value:.3f}" for value in found["bm25"][0]]
        yield f"| {fields} | {rows} | {' | '.join(cells)} | {parameters / 1e6:.1f}M |"


class _Others:
    """Ranks an article's own title last: nobody clicks from it to itself."""

    name = "others"

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


def _dssm(*words: object) -> None:
    if dssm([str(word) for word in words]):
        sys.exit(1)


if __name__ == "__main__":
    main()
