"""`dssm report`: writes a report about a training run."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS
from dssm_tf.commands.named import named_paths
from dssm_tf.common.paths import AnyPath, NamedPath
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say


def report(
    *,
    model: AnyPath,
    out: AnyPath,
    judgments: AnyPath | None = None,
    corpus: AnyPath | None = None,
    beside: tuple[NamedPath, ...] = (),
) -> None:
    """Write a report about a run: learning curves, metrics, explained queries, keywords.

    With --judgments, the run is measured, and its best and worst queries are explained.

        dssm report --model RUN --judgments judgments.tsv --corpus corpus.tsv --out REPORT

    Args:
        model: directory that `dssm train` wrote.
        out: directory to write; it must not exist.
        judgments: table, as for `dssm evaluate`.
        corpus: table with doc_id, title; all of it is ranked.
        beside: [NAME=]RUN: another run, to show with its curves, metrics and keywords; may be
            repeated.

    Raises:
        UserError: a file is missing or malformed, or `out` exists.
    """
    model, out = Path(model), Path(out)
    from dssm_tf.common.files import atomic_directory, refuse_existing
    from dssm_tf.reports import markdown
    from dssm_tf.tables.judgments import read_corpus, read_judgments

    refuse_existing(out)
    other_runs = named_paths(beside, "--beside")
    layout = DEFAULT_TABLE_FLAGS.layout(model)
    titles = None if corpus is None else read_corpus(corpus, layout.corpus)
    rows = [] if judgments is None else read_judgments(judgments, layout)
    load_tensorflow()
    from dssm_tf.analysis.report import report as run_report

    content = run_report(model, rows, titles, beside=other_runs)
    with atomic_directory(out) as directory:
        markdown.write(directory, *content)
    say(f"open: {out / 'report.html'}")
