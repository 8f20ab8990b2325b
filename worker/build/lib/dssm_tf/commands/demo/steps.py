"""`dssm demo`: bundled click log to served ranker, start to finish, on real questions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from time import monotonic

import numpy as np
from rich.console import Console

from dssm_tf.commands.demo.page import BENCHMARK, demo_page
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write, refuse_others
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.evaluation.evaluation import Evaluation
from dssm_tf.evaluation.ranker import Ranker
from dssm_tf.export.load import load_model
from dssm_tf.export.saved_model import export
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.reports.files import write
from dssm_tf.reports.table import print_tables
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus, write_judgments
from dssm_tf.tables.reader import read_rows
from dssm_tf.tables.writer import write_table
from dssm_tf.training.result import Result
from dssm_tf.training.train import train

_MODELS = ("dssm", "lstm")
LIVE_QUERIES = (
    "what language do they speak in brasil",
    "capital of austrailia",
    "where is the grand canion",
)
_MARK = ".dssm-demo"
_OWN = (
    _MARK, "data", "preprocessed", ".preprocessed.*", "runs", "evaluation", ".evaluation.*",
    "export", "metrics.json", "report.html", ".report.html.*",
)  # fmt: skip


def run(out: Path | str, console: Console | None = None) -> None:
    """Runs every step and writes `metrics.json`, `report.html` and `export/` into `out`.

    Args:
        out: directory to write; what an earlier demo wrote there is replaced.
        console: where to print.

    Raises:
        UserError: `out` holds something else.
    """
    console = console or Console()
    started = monotonic()
    out = _start(Path(out))

    _step(console, 1, "click log", "WebQuestions (Berant et al. 2013, CC BY 4.0)")
    judgments, corpus = _write_data(out / "data")
    console.print(
        f"{out / 'data'}: clicks.tsv, judgments.tsv ({len(judgments):,} judged), "
        f"corpus.tsv ({len(corpus):,} titles)",
        highlight=False,
    )

    _step(console, 2, "preprocess", "Beam: clean, split, trigram-hash, sample negatives")
    _preprocess(out)

    runs: dict[str, Result] = {}
    for name in _MODELS:
        _step(console, 3 + len(runs), f"train {name}", f"configs/{name}.yaml")
        config = load_config(find_config(name))
        runs[name] = train(config, out / "preprocessed", out / "runs" / name)

    _step(console, 5, "evaluate", "each test question ranks every title")
    rankers = {name: SemanticRanker.load(out / "runs" / name) for name in _MODELS}
    bm25 = BASELINES["bm25"]().fit([], [title.title for title in corpus])
    systems: dict[str, Ranker] = {"bm25": bm25, **rankers}
    evaluation = evaluate(systems, judgments, corpus, console=console)
    with atomic_directory(out / "evaluation") as folder:
        write(evaluation, folder)
    shutil.copyfile(out / "evaluation" / "metrics.json", out / "metrics.json")
    print_tables(evaluation, console)

    _step(console, 6, "export", "SavedModels that take raw strings")
    exported = {}
    for name in _MODELS:
        exported[name] = export(out / "runs" / name, out / "export", name)
        console.print(f"{exported[name]}: verified against the trained model", highlight=False)

    _step(console, 7, "ask", "the exported models, loaded as a server would, and BM25")
    answers = _ask(exported, bm25, [title.title for title in corpus])
    for query, systems_answers in answers.items():
        console.print(f"  {query}?", highlight=False)
        for name, found in systems_answers.items():
            shown = ", ".join(title for title, _ in found[:3])
            console.print(f"    {name:<5} {shown}", highlight=False, soft_wrap=True)

    seconds = monotonic() - started
    with atomic_write(out / "report.html") as file:
        file.write(demo_page(evaluation, runs, answers, seconds))
    _finish(console, out, evaluation, seconds)


def _start(out: Path) -> Path:
    refuse_others(out, _OWN)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).touch()  # first, and last to go: a demo killed here is still known for one
    for path in [path for pattern in _OWN[1:] for path in out.glob(pattern)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return out


def _step(console: Console, number: int, name: str, what: str) -> None:
    console.print(f"\n[bold]{number}. {name}[/bold]  [dim]{what}[/dim]", highlight=False)


def _write_data(directory: Path) -> tuple[list[Judgment], list[CorpusTitle]]:
    """The log (all splits but the test), and the test as judgments of the whole corpus."""
    bundled = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    with as_file(bundled) as table:
        rows = [row for _, row in read_rows(table, ("query_id", "split", "query", "title"))]
    titles = dict.fromkeys(title for _, _, _, title in rows)
    corpus = [CorpusTitle(f"wq{i:05d}", title) for i, title in enumerate(titles, 1)]
    ids = {one.title: one.doc_id for one in corpus}
    clicks = ((query, title) for _, split, query, title in rows if split != "test")
    write_table(directory / "clicks.tsv", ("query", "title"), clicks)
    judged = {
        (query_id, title): Judgment(query_id, query, ids[title], title, 1.0)
        for query_id, split, query, title in rows
        if split == "test"
    }
    judgments = list(judged.values())
    write_judgments(directory / "judgments.tsv", judgments)
    write_corpus(directory / "corpus.tsv", corpus)
    return judgments, corpus


def _preprocess(out: Path) -> None:
    from pipelines.preprocess import run

    data = out / "data"
    status = run(
        ["--input", str(data / "clicks.tsv"), "--corpus", str(data / "corpus.tsv"),
         "--output", str(out / "preprocessed")]
    )  # fmt: skip
    if status:
        raise UserError("preprocess failed; its message is above.")


Answers = dict[str, dict[str, list[tuple[str, float]]]]


def _ask(exported: Mapping[str, Path], bm25: Ranker, titles: Sequence[str]) -> Answers:
    """The best titles of each live query, of BM25 and of each SavedModel, with their scores."""
    rankers = {"bm25": bm25} | {name: load_model(path) for name, path in exported.items()}
    answers: Answers = {}
    for query in LIVE_QUERIES:
        answers[query] = {}
        for name, ranker in rankers.items():
            scores = np.asarray(ranker.score(query, titles))
            best = np.argsort(-scores, kind="stable")[:5]
            answers[query][name] = [(titles[i], float(scores[i])) for i in best if scores[i] > 0]
    return answers


def _finish(console: Console, out: Path, evaluation: Evaluation, seconds: float) -> None:
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))["systems"]
    best = max(metrics, key=lambda name: metrics[name]["ndcg@10"])
    trained = max(_MODELS, key=lambda name: metrics[name]["ndcg@10"])
    console.print(
        f"\n[bold green]Done[/bold green] in {seconds:.0f} s. Best by NDCG@10: {best} "
        f"({metrics[best]['ndcg@10']:.3f}; bm25 {metrics['bm25']['ndcg@10']:.3f}).",
        highlight=False,
    )
    for line in (
        f"  look   {out / 'report.html'}",
        f"  search dssm search --model {out / 'runs' / trained} --corpus {out / 'data/corpus.tsv'}",
        f"  try    dssm serve {out / 'export' / trained} --corpus {out / 'data/corpus.tsv'}"
        "  # then open http://127.0.0.1:8501/",
        f"  serve  tensorflow_model_server --rest_api_port=8501 --model_name={trained} "
        f"--model_base_path={(out / 'export' / trained).resolve()}",
        f"  yours  {BENCHMARK}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
