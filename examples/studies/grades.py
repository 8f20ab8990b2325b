r"""Compares training on judgments, on a teacher's scores, and on clicks by NDCG.

    python -m examples.studies.grades judgments --judgments judgments.tsv --seeds 3
    python -m examples.studies.grades teacher --clicks clicks.tsv --corpus corpus.tsv \
        --wordllama FOLDER --seeds 3

The first command trains on the judgments of four fifths of the queries and ranks the judged titles
of the others. The second trains on the earlier four fifths of a log and ranks the corpus for the
queries of the later part, whose clicks are grades (`judgments_from_clicks`). The teacher is
WordLlama (`pip install --target FOLDER wordllama`). With `--beside dssm bilstm`, it is the mean of
WordLlama's cosine and those of models that are trained on the clicks first. Each command prints a
Markdown table: the mean over seeds, and half of their range. With `--folder`, data and runs are
kept, and the same command resumes.
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
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.graded_lists import write_lists
from dssm_tf.tables.judgments import read_corpus, read_judgments
from dssm_tf.text.rules import FOLDED
from examples.judged_log import main as judged_log
from examples.studies.commands import run_dssm

CUTOFFS = ("ndcg@1", "ndcg@3", "ndcg@10")
_WITHOUT_CLICKS = ["training.clicks=false"]
_ONLY_LISTS = [*_WITHOUT_CLICKS, "training.title_queries=0"]
JUDGED = {
    "clicks": [],
    "clicks + judgments": ["{judgments}"],
    "judgments": ["{judgments}", *_WITHOUT_CLICKS],
    "judgments, no titles as queries": ["{judgments}", *_ONLY_LISTS],
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
    "teacher, kl": ["{teacher}", *_ONLY_LISTS],
    "teacher, margin_mse": ["{teacher}", *_ONLY_LISTS, "teacher.loss={name: margin_mse}"],
}


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the study and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    judgments_parser = tasks.add_parser("judgments")
    judgments_parser.add_argument("--judgments", type=Path, required=True)
    teacher_parser = tasks.add_parser("teacher")
    teacher_parser.add_argument(
        "--clicks", type=Path, required=True, help="with a column timestamp"
    )
    teacher_parser.add_argument("--corpus", type=Path, required=True)
    teacher_parser.add_argument(
        "--wordllama", type=Path, required=True, help="the directory of `pip install --target`"
    )
    teacher_parser.add_argument(
        "--beside", nargs="*", default=[], metavar="CONFIG", help="further teachers"
    )
    for parser_of_task, variants in ((judgments_parser, JUDGED), (teacher_parser, TAUGHT)):
        parser_of_task.add_argument("--config", default="dssm")
        parser_of_task.add_argument("--seeds", type=int, default=3)
        parser_of_task.add_argument(
            "--variants", help=f"some of {'; '.join(variants)}", default="; ".join(variants)
        )
        parser_of_task.add_argument(
            "--folder", type=Path, help="directory that keeps data and runs"
        )
        parser_of_task.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(argv)
    load_tensorflow()
    run = _judgments if options.task == "judgments" else _teacher
    with TemporaryDirectory() as temporary:
        lines = run(options, options.folder or Path(temporary))
        sys.stdout.write("\n".join(lines) + "\n")


def _judgments(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    split, data = folder / "split", folder / "data"
    if not split.exists():
        flags = ["--judgments", options.judgments, "--hold-out-queries", "0.2", "--out", split]
        judged_log([str(flag) for flag in flags])
    _preprocess(split, data)
    judgments = read_judgments(split / "held_out.tsv")
    titles = [entry.title for entry in read_corpus(split / "corpus.tsv")]
    files = {"{judgments}": f"judgments.file={split / 'judgments.tsv'}"}
    bm25 = {"bm25": BASELINES["bm25"]().fit([], titles)}
    yield from _table(options, JUDGED, files, data, bm25, judgments, None, {})


def _teacher(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    split, data, out = folder / "split", folder / "data", folder / "teacher"
    if not split.exists():
        run_dssm("data", "split", "--clicks", options.clicks, "--corpus", options.corpus,
              "--judge-later", "0.2", "--out", split)  # fmt: skip
    _preprocess(split, data)
    embed = _wordllama(options.wordllama)
    runs = [_run(config, data, folder / f"beside-{config}") for config in options.beside]
    teacher = _CosineRanker(
        _mean_cosine_encoder([embed, *(run.encode_queries for run in runs)]),
        _mean_cosine_encoder([embed, *(run.encode_titles for run in runs)]),
    )
    encoders = (
        lambda texts: _normalize(teacher.queries(texts)),
        lambda texts: _normalize(teacher.titles(texts)),
    )
    write_lists(out / "scores.tsv", "score", teach(Preprocessed(data), encoders, progress=True))
    judgments = read_judgments(split / "judgments.tsv")
    corpus = read_corpus(split / "corpus.tsv")
    log_queries = {
        FOLDED.key(line.split("\t")[0])
        for line in (split / "clicks.tsv").read_text("utf-8").splitlines()[1:]
    }
    rankers = {
        "bm25": BASELINES["bm25"]().fit([], [entry.title for entry in corpus]),
        "WordLlama": _CosineRanker(embed, embed),
    }
    if runs:
        rankers[" + ".join(["WordLlama", *options.beside])] = teacher
    files = {"{teacher}": f"teacher.file={out / 'scores.tsv'}"}
    yield from _table(options, TAUGHT, files, data, rankers, judgments, corpus, log_queries)


class _CosineRanker:
    """Ranks by the cosine of a model's vectors.

    Args:
        queries: function from queries to vectors.
        titles: function from titles to vectors.
    """

    name = "by cosine"

    def __init__(self, queries: Any, titles: Any) -> None:
        self.queries, self.titles = queries, titles
        self._title_vectors: dict[Sequence[str], Any] = {}

    def score(self, query: str, titles: Sequence[str]) -> Any:
        """Cosines of a query with titles, `(titles,)`."""
        return self.score_matrix([query], titles)[0]

    def score_matrix(self, queries: Sequence[str], titles: Sequence[str]) -> Any:
        """Cosines of queries with titles, `(queries, titles)`."""
        key = tuple(titles)
        if key not in self._title_vectors:
            self._title_vectors = {key: _normalize(self.titles(list(titles)))}
        return _normalize(self.queries(list(queries))) @ self._title_vectors[key].T


def _normalize(vectors: Any) -> Any:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12)


def _mean_cosine_encoder(models: Sequence[Any]) -> Any:
    """Joins encoders to one whose cosine is the mean of their cosines."""
    return lambda texts: np.concatenate([_normalize(model(texts)) for model in models], axis=1)


def _run(config: str, data: Path, out: Path) -> Any:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    train(load_config(find_config(config)), data, out, quiet=True)
    return SemanticRanker.load(out, config)


def _wordllama(folder: Path) -> Any:
    sys.path.append(str(folder))  # after the installed packages
    from wordllama import WordLlama

    tokenizers = folder / "wordllama" / "tokenizers"
    if not (link := folder / "wordllama" / "tokenizer").exists():  # WordLlama reads this path
        link.symlink_to(tokenizers)
    return WordLlama.load(disable_download=True).embed


def _preprocess(split: Path, data: Path) -> None:
    if not data.exists():
        run_dssm("preprocess", "--input", split / "clicks.tsv", "--corpus", split / "corpus.tsv",
              "--output", data)  # fmt: skip


def _table(
    options: argparse.Namespace,
    variants: Mapping[str, list[str]],
    files: Mapping[str, str],
    data: Path,
    rankers: Mapping[str, Any],
    judgments: Any,
    corpus: Any,
    log_queries: Any,
) -> Iterator[str]:
    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train

    selected = [name.strip() for name in options.variants.split(";")]
    rows: dict[str, list[list[float]]] = {}
    sizes: dict[str, int] = {}
    new_queries = np.ones(0, bool)
    for seed in range(options.seeds):
        for name in [*(rankers if not seed else ()), *selected]:
            system = rankers.get(name)
            if system is None:
                settings = [files.get(setting, setting) for setting in variants[name]]
                settings += [*options.set, f"training.seed={seed}"]
                config = load_config(find_config(options.config), settings)
                out = data.parent / f"run-{list(variants).index(name)}-{seed}"
                train(config, data, out, quiet=True)
                system = SemanticRanker.load(out, name)
                sizes[name] = (out / "model.weights.h5").stat().st_size
            ranked = {name: system}
            if name not in rankers:  # without the prior, which is not learned from the teacher
                cosine = _CosineRanker(system.encode_queries, system.encode_titles)
                ranked[f"{name}; by cosine"] = cosine
            evaluation = evaluate(ranked, judgments, corpus, metrics=CUTOFFS)
            new_queries = np.array(
                [FOLDED.key(query) not in log_queries for query in evaluation.task.queries]
            )
            for row in ranked:
                values = [evaluation.values[row][metric] for metric in CUTOFFS]
                if log_queries:
                    values += [query_values[new_queries] for query_values in values]
                rows.setdefault(row, []).append([float(np.nanmean(v)) for v in values])
                means = " ".join(f"{value:.4f}" for value in rows[row][-1])
                sys.stderr.write(f"{row}, seed {seed}: {means}\n")
    new = int(new_queries.sum())
    yield f"{len(new_queries):,} queries, {new:,} of them new; {options.seeds} seeds"
    yield ""
    extra = " new: @1 | @3 | @10 |" if log_queries else ""
    yield f"| {options.config} from | NDCG@1 | @3 | @10 |{extra} MB |"
    yield "|---|---|---|---|" + ("---|---|---|" if log_queries else "") + "---|"
    for name, values_by_seed in rows.items():
        means, ranges = np.mean(values_by_seed, 0), np.ptp(values_by_seed, 0)
        cells = [
            f"{mean:.3f}" + (f" ± {spread / 2:.3f}" if len(values_by_seed) > 1 else "")
            for mean, spread in zip(means, ranges, strict=True)
        ]
        size = f"{sizes[name] / 1e6:.1f}" if name in sizes else ""
        yield f"| {name} | {' | '.join(cells)} | {size} |"


if __name__ == "__main__":
    main()
