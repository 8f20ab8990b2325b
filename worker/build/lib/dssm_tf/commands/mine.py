"""`dssm mine`: hard negatives for training, from rankings of trained models and BM25."""

from __future__ import annotations

from pathlib import Path

from dssm_tf.commands.named import named_paths


def mine(
    *,
    data: Path,
    out: Path,
    model: tuple[str, ...] = (),
    bm25: bool = False,
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
) -> None:
    """Find hard negatives: titles that rank high for a query and were never clicked for it.

    Ranks all titles of the data for each of its queries. Training draws some of a query's in each
    epoch, beside its other negatives. With negatives.mine_every the model that is being trained
    mines by itself.

        dssm mine --data DATA --bm25 --out mined.tsv
        dssm train ... --set negatives.mined=4 --set negatives.mined_from=mined.tsv

    Args:
        data: directory that preprocess wrote.
        out: table to write: query, title, system, rank, score.
        model: [NAME=]RUN, a directory `dssm train` wrote, which ranks by its cosine; may be
            repeated.
        bm25: mine by BM25, alone or beside models.
        ranks: FIRST LAST, which ranks to take, among the titles that could be negatives.
        margin: leave out titles whose score is within this share of the best clicked title's, or
            above it: they may be good, though nobody clicked them.

    Raises:
        UserError: an input cannot be used, `out` exists, or no title is left.
    """
    from rich.console import Console

    from dssm_tf.training.mine import mine as mined

    named = named_paths(model, "--model")
    rows = mined(data, out, named, bm25=bm25, ranks=ranks, margin=margin, progress=True)

    from dssm_tf.data.format import Spec

    titles, every = len({row.title for row in rows}), Spec.load(data).count("queries")
    lines = [f"{out}: {len(rows):,} hard negatives, {titles:,} distinct titles"]
    for system in dict.fromkeys(row.system for row in rows):
        queries = len({row.query for row in rows if row.system == system})
        none = "" if queries == every else "; the others have no such title within the ranks"
        lines.append(f"{system}: of {queries:,} of {every:,} queries{none}")
    lines.append(
        f"next: dssm train --config dssm --data {data} --set negatives.mined=4 "
        f"--set negatives.mined_from={out} --out RUN"
    )
    Console().print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)
