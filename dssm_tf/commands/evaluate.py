"""`dssm evaluate`: trained models and baselines on a judgments file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssm_tf.commands.flags import PLAIN, Tables
from dssm_tf.commands.named import named_paths, refuse_twins
from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import NoClicks, UserError, check_name
from dssm_tf.common.files import atomic_directory, refuse_existing
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dssm_tf.baselines.base import Click
    from dssm_tf.evaluation.ranker import Ranker


def evaluate(
    *,
    judgments: Path,
    out: Path,
    model: tuple[str, ...] = (),
    baselines: str = "bm25",
    runs: tuple[str, ...] = (),
    corpus: Path | None = None,
    data: Path | None = None,
    tables: Tables = PLAIN,
) -> None:
    """Rank judged queries by models and baselines, measure, test, and write tables and a page.

    Without --corpus, each query ranks its judged titles.

        dssm evaluate --model RUN --judgments judgments.tsv --corpus corpus.tsv --out EVALUATION

    Args:
        judgments: table (TSV, CSV, JSONL, Parquet) with query_id, query, doc_id, title, grade;
            `dssm data convert trec` makes one from TREC qrels.
        out: directory to write, new.
        model: [NAME=]DIR: what `dssm train` or `dssm export` wrote, or a saved baseline, e.g.
            skip_thought=DIR for skip-thought weights; may be repeated.
        baselines: comma-separated, or '' for none; they are fitted on the titles.
        runs: [NAME=]FILE: a TREC run file of another system; may be repeated.
        corpus: table with doc_id, title: rank all of it.
        data: directory preprocess wrote: baselines learn from its clicks, not from titles alone.
        tables: how they are laid out.

    Raises:
        UserError: an input is missing or malformed, `out` exists, or names clash.
    """
    # Only now: the command line must answer --help without these.
    from dssm_tf.baselines.base import Baseline
    from dssm_tf.common.versions import versions
    from dssm_tf.evaluation.evaluate import evaluate as measure
    from dssm_tf.evaluation.evaluation import about_vocabulary
    from dssm_tf.evaluation.ranking import tie_key
    from dssm_tf.export.load import load
    from dssm_tf.reports.files import WRITTEN, write
    from dssm_tf.reports.report import show
    from dssm_tf.systems import BASELINES
    from dssm_tf.tables.judgments import read_corpus, read_judgments
    from dssm_tf.tables.trec import read_run

    refuse_existing(out)
    models, others = named_paths(model, "--model"), named_paths(runs, "--runs")
    layout = tables.layout(*models.values())
    names = [name for name in baselines.split(",") if name]
    for name in names:
        check_name("baseline", name, BASELINES)
    refuse_twins([*names, *models, *others], "--model")
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    grades = read_judgments(judgments, layout)
    if data is not None and not names:
        raise UserError(f"--data {data}: only baselines learn from it, but none is fitted.")
    load_tensorflow()
    from dssm_tf.data.preprocessed import Preprocessed

    log = None if data is None else Preprocessed(data).log()
    ranked = sorted({one.title for one in titles or grades}, key=tie_key)
    systems = {name: _baseline(name, log, ranked) for name in names}
    about = {}
    for name, path in models.items():
        systems[name] = ranker = load(path, name)
        if not isinstance(ranker, Baseline):
            texts = list(dict.fromkeys(one.query for one in grades))
            about[name] = about_vocabulary(ranker.vocabulary.unknown_share(texts))
    read = {name: read_run(path, layout.encoding) for name, path in others.items()}
    found = measure(systems, grades, titles, runs=read, about=about, progress=True)
    inputs = {"judgments": judgments, "corpus": corpus, "data": data}
    found = replace(
        found,
        seen=_seen(found.task.queries, log, models),
        settings={
            "inputs": _fingerprints({**inputs, **others}),
            "models": _fingerprints(models),
            "versions": versions(),
        },
    )
    with atomic_directory(out) as folder:
        write(found, folder)
    show(found, f"Written: {out}/{WRITTEN}")


def _baseline(name: str, log: Sequence[Click] | None, titles: Sequence[str]) -> Ranker:
    from dssm_tf.systems import BASELINES

    try:
        return BASELINES[name]().fit(log or [], titles, progress=True)
    except NoClicks as error:
        if log is not None:
            raise
        raise UserError(f"{error} Give --data, a directory that preprocess wrote.") from error


def _seen(
    queries: Sequence[str], log: Sequence[Click] | None, models: Mapping[str, Path]
) -> NDArray[np.bool_] | None:
    """Whether a log that a system learned from has each query; None if no log is known."""
    import numpy as np

    from dssm_tf.benchmark.external import in_training_log
    from dssm_tf.text.rules import FOLDED

    known = (in_training_log(queries, path) for path in models.values())
    seen = [mask for mask in known if mask is not None]
    if log is not None:
        logged = FOLDED.column(query for query, _, _ in log)
        seen.append(np.isin(FOLDED.column(queries), logged))
    return np.any(seen, axis=0) if seen else None


def _fingerprints(paths: Mapping[Any, Path | str | None]) -> dict[Any, dict[str, str]]:
    """Files and directories as given, with their SHA-256."""
    return {
        name: {"given": str(path), "sha256": fingerprint(Path(path))}
        for name, path in paths.items()
        if path is not None
    }
