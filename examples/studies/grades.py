r"""What judgments and teachers are worth: NDCG of models that learn from them, or from clicks.

    python -m examples.studies.grades judgments --judgments judgments.tsv --seeds 3
    python -m examples.studies.grades teacher --clicks clicks.tsv --corpus corpus.tsv \
        --wordllama FOLDER --seeds 3

The first trains on the judgments of four fifths of the queries and ranks the judged titles of the
others. The second trains on the earlier four fifths of a log by time and ranks the corpus for the
later part, whose clicks are grades (`judgments_from_clicks`); the teacher is WordLlama (`pip
install --target FOLDER wordllama`), or with `--beside dssm bilstm` the mean of its cosine and of
those of models that learn from the clicks first. Each prints a Markdown table: the mean over seeds,
and half of their range. With `--folder` data and runs are kept, and the same command goes on where
it was.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dssm_tf.benchmark.teacher import teach
from dssm_tf.cli import main as dssm
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.graded_lists import write_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
_ALONE = ["training.clicks=false"]
_PLAIN = [*_ALONE, "training.title_queries=0"]
JUDGED = {
    "clicks": [],
    "clicks + judgments": ["{judgments}"],
    "judgments": ["{judgments}", *_ALONE],
    "judgments, no titles as queries": ["{judgments}", *_PLAIN],
    "clicks + judgments, kl": ["{judgments}", "judgments.loss={name: kl, temperature: 0.5}"],
    "clicks + judgments, margin_mse": [
        "{judgments}",
        "judgments.loss={name: margin_mse, gamma: 4}",
    ],
}
TAUGHT = {
    "clicks": [],
    "clicks + teacher": ["{teacher}"],
    "clicks + teacher, margin_mse": ["{teacher}", "teacher.loss={name: margin_mse}"],
    "teacher, kl": ["{teacher}", *_PLAIN],
    "teacher, margin_mse": ["{teacher}", *_PLAIN, "teacher.loss={name: margin_mse}"],
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    judged = tasks.add_parser("judgments")
    judged.add_argument("--judgments", type=Path, required=True)
    taught = tasks.add_parser("teacher")
    taught.add_argument("--clicks", type=Path, required=True, help="with a column timestamp")
    taught.add_argument("--corpus", type=Path, required=True)
    taught.add_argument("--wordllama", type=Path, required=True, help="where pip put it")
    taught.add_argument("--beside", nargs="*", default=[], metavar="CONFIG", help="also teachers")
    for one, variants in ((judged, JUDGED), (taught, TAUGHT)):
        one.add_argument("--config", default="dssm")
        one.add_argument("--seeds", type=int, default=3)
        one.add_argument(
            "--variants", help=f"some of {'; '.join(variants)}", default="; ".join(variants)
        )
        one.add_argument("--folder", type=Path, help="keeps data and runs")
        one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(argv)
    load_tensorflow()
    run = _judgments if options.task == "judgments" else _teacher
    with TemporaryDirectory() as passing:
        lines = run(options, options.folder or Path(passing))
        sys.stdout.write("\n".join(lines) + "\n")


def _judgments(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    parts, data = folder / "parts", folder / "data"
    _dssm("data", "judged", "--judgments", options.judgments, "--hold-out-queries", "0.2",
          "--out", parts)  # fmt: skip
    _preprocess(parts, data)
    judgments = read_judgments(parts / "held_out.tsv")
    titles = [one.title for one in read_corpus(parts / "corpus.tsv")]
    files = {"{judgments}": f"judgments.file={parts / 'judgments.tsv'}"}
    bm25 = {"bm25": BASELINES["bm25"]().fit([], titles)}
    yield from _table(options, JUDGED, files, data, bm25, judgments, None, {})


def _teacher(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    parts, data, out = folder / "parts", folder / "data", folder / "teacher"
    _dssm("data", "split", "--clicks", options.clicks, "--corpus", options.corpus,
          "--judge-later", "0.2", "--out", parts)  # fmt: skip
    _preprocess(parts, data)
    embed = _wordllama(options.wordllama)
    runs = [_run(config, data, folder / f"beside-{config}") for config in options.beside]
    teacher = _ByCosine(
        _side_by_side([embed, *(run.encode_queries for run in runs)]),
        _side_by_side([embed, *(run.encode_titles for run in runs)]),
    )
    sides = (
        lambda texts: _unit(teacher.queries(texts)),
        lambda texts: _unit(teacher.titles(texts)),
    )
    write_lists(out / "scores.tsv", "score", teach(Preprocessed(data), sides, progress=True))
    judgments = read_judgments(parts / "judgments.tsv")
    corpus = read_corpus(parts / "corpus.tsv")
    seen = {
        FOLDED.key(line.split("\t")[0])
        for line in (parts / "clicks.tsv").read_text("utf-8").splitlines()[1:]
    }
    others = {
        "bm25": BASELINES["bm25"]().fit([], [one.title for one in corpus]),
        "WordLlama": _ByCosine(embed, embed),
    }
    if runs:
        others[" + ".join(["WordLlama", *options.beside])] = teacher
    files = {"{teacher}": f"teacher.file={out / 'scores.tsv'}"}
    yield from _table(options, TAUGHT, files, data, others, judgments, corpus, seen)


class _ByCosine:
    """A ranker by the cosine of a model's vectors.

    Args:
        queries: texts to vectors.
        titles: likewise.
    """

    name = "by cosine"

    def __init__(self, queries: Any, titles: Any) -> None:
        self.queries, self.titles = queries, titles
        self._known: dict[Sequence[str], Any] = {}

    def score(self, query: str, titles: Sequence[str]) -> Any:
        """Cosines of a query with titles."""
        return self.score_matrix([query], titles)[0]

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Any:
        """Cosines of queries with titles."""
        key = tuple(titles)
        if key not in self._known:
            self._known = {key: _unit(self.titles(list(titles)))}
        return _unit(self.queries(list(queries))) @ self._known[key].T


def _unit(vectors: Any) -> Any:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def _side_by_side(models: Sequence[Any]) -> Any:
    """Vectors whose cosine is the mean of the models' cosines."""
    return lambda texts: np.concatenate([_unit(model(texts)) for model in models], axis=1)


def _run(config: str, data: Path, out: Path) -> Any:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    train(load_config(find_config(config)), data, out, quiet=True)
    return SemanticRanker.load(out, config)


def _wordllama(folder: Path) -> Any:
    sys.path.append(str(folder))  # behind what is installed
    from wordllama import WordLlama

    tokenizers = folder / "wordllama" / "tokenizers"
    if not (wanted := folder / "wordllama" / "tokenizer").exists():  # where it looks
        wanted.symlink_to(tokenizers)
    return WordLlama.load(disable_download=True).embed


def _preprocess(parts: Path, data: Path) -> None:
    if not data.exists():
        _dssm("preprocess", "--input", parts / "clicks.tsv", "--corpus", parts / "corpus.tsv",
              "--output", data)  # fmt: skip


def _dssm(*words: Any) -> None:
    """Runs a command; `dssm data` says by itself that it has run before."""
    if dssm([str(word) for word in words]):
        sys.exit(1)


def _table(
    options: argparse.Namespace,
    variants: Mapping[str, list[str]],
    files: Mapping[str, str],
    data: Path,
    others: Mapping[str, Any],
    judgments: Any,
    corpus: Any,
    seen: Any,
) -> Iterator[str]:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    chosen = [name.strip() for name in options.variants.split(";")]
    rows: dict[str, list[list[float]]] = {}
    sizes: dict[str, int] = {}
    fresh = np.ones(0, bool)
    for seed in range(options.seeds):
        for name in [*(others if not seed else ()), *chosen]:
            system = others.get(name)
            if system is None:
                settings = [files.get(one, one) for one in variants[name]]
                settings += [*options.set, f"training.seed={seed}"]
                config = load_config(find_config(options.config), settings)
                out = data.parent / f"run-{list(variants).index(name)}-{seed}"
                train(config, data, out, quiet=True)
                system = SemanticRanker.load(out, name)
                sizes[name] = (out / "model.weights.h5").stat().st_size
            ranked = {name: system}
            if name not in others:  # a click prior is no part of what a teacher taught
                cosine = _ByCosine(system.encode_queries, system.encode_titles)
                ranked[f"{name}; by cosine"] = cosine
            evaluation = evaluate(ranked, judgments, corpus, metrics=CUTOFFS)
            fresh = np.array([FOLDED.key(query) not in seen for query in evaluation.task.queries])
            for row in ranked:
                values = [evaluation.values[row][metric] for metric in CUTOFFS]
                parts = [values] + ([[one[fresh] for one in values]] if seen else [])
                rows.setdefault(row, []).append([float(np.nanmean(v)) for p in parts for v in p])
                shown = " ".join(f"{value:.4f}" for value in rows[row][-1])
                sys.stderr.write(f"{row}, seed {seed}: {shown}\n")
    yield f"{len(fresh):,} queries, {int(fresh.sum()):,} of them new; {options.seeds} seeds"
    yield ""
    extra = " new: @1 | @3 | @10 |" if seen else ""
    yield f"| {options.config} from | NDCG@1 | @3 | @10 |{extra} MB |"
    yield "|---|---|---|---|" + ("---|---|---|" if seen else "") + "---|"
    for name, found in rows.items():
        means, ranges = np.mean(found, 0), np.ptp(found, 0)
        cells = [
            f"{mean:.3f}" + (f" ± {spread / 2:.3f}" if len(found) > 1 else "")
            for mean, spread in zip(means, ranges, strict=True)
        ]
        size = f"{sizes[name] / 1e6:.1f}" if name in sizes else ""
        yield f"| {name} | {' | '.join(cells)} | {size} |"


if __name__ == "__main__":
    main()
