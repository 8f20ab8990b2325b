"""`dssm mine`: finds hard negatives for training in rankings by trained models and BM25."""

from __future__ import annotations

import shlex
from pathlib import Path

from dssm_tf.commands.named import named_paths
from dssm_tf.common.paths import AnyPath, NamedPath
from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.common.terminal import say


def mine(
    *,
    data: AnyPath,
    out: AnyPath,
    model: tuple[NamedPath, ...] = (),
    bm25: bool = False,
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
) -> None:
    """Find hard negatives: titles that rank high for a query and were never clicked for it.

    Ranks all titles of the data for each query. Training draws some of the written titles for each
    query and epoch, in addition to other negatives.

        dssm mine --data DATA --bm25 --out mined.tsv
        dssm train ... --set negatives.mined=4 --set negatives.mined_from=mined.tsv

    Args:
        data: directory that preprocess wrote.
        out: table to write: query, title, system, rank, score.
        model: [NAME=]RUN, a directory that `dssm train` wrote; titles are ranked by its score
            without the prior; may be repeated.
        bm25: rank by BM25, with or without models.
        ranks: FIRST LAST: the ranks to take. Titles that cannot be negatives have no rank.
        margin: skip titles whose score is above (1 - MARGIN) times the best clicked title's: they
            may be relevant even without clicks.

    Raises:
        UserError: an input cannot be used, `out` exists, or no title is left.
    """
    data, out = Path(data), Path(out)
    load_tensorflow()
    from dssm_tf.training.mining import mine as mine_negatives

    models = named_paths(model, "--model")
    rows = mine_negatives(data, out, models, bm25=bm25, ranks=ranks, margin=margin, progress=True)

    titles, queries = len({row.title for row in rows}), len({row.query for row in rows})
    say(
        f"{out}: {len(rows):,} hard negatives of {queries:,} queries, {titles:,} distinct titles",
        f"next: dssm train --config dssm --data {shlex.quote(str(data))} "
        f"--set negatives.mined=4 --set {shlex.quote(f'negatives.mined_from={out}')} --out RUN",
    )
