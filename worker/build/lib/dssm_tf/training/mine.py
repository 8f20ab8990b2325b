"""Writes a table of hard negatives: what `dssm mine` and `dssm_tf.mine` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import refuse_existing
from dssm_tf.common.quiet import load_tensorflow

if TYPE_CHECKING:
    from dssm_tf.tables.hard_negatives import HardNegative


def mine(
    directory: Path | str,
    out: Path | str,
    models: Mapping[str, Path | str] | Sequence[Path | str] = (),
    *,
    bm25: bool = False,
    ranks: tuple[int, int] = (1, 30),
    margin: float = 0.05,
    progress: bool = False,
) -> list[HardNegative]:
    """Mines hard negatives and writes them as a table, as `dssm mine` does.

    They are titles that rank high for a query though nobody clicked them for it. A training run
    with the settings `negatives.mined=4` and `negatives.mined_from=mined.tsv` draws four of each
    query's in every epoch.

    Args:
        directory: what `dssm preprocess` wrote; all its titles are ranked for each query.
        out: table to write, new: query, title, system, rank, score.
        models: runs of `dssm train`, by name, or else called as their directories are; they rank
            by their cosine, without a prior.
        bm25: whether BM25 mines, too.
        ranks: first and last, from 1, among the titles that could be negatives.
        margin: share of the best clicked title's score within which an unclicked title is left
            out, because it may be as good.
        progress: shows how far it is, on the error stream.

    Returns:
        The rows of the table: system after system, queries in the order of their texts, best
        first.

    Raises:
        UserError: an input cannot be used, `out` exists, or no title is left.
    """
    out = Path(out)
    named = models if isinstance(models, Mapping) else {Path(one).name: one for one in models}
    if len(named) < len(models) or (bm25 and "bm25" in named):
        raise UserError(f"models {[*map(str, models)]}: two systems have one name; name them.")
    if not (named or bm25):
        raise UserError("nothing to mine with: give a run (--model RUN), --bm25, or both.")
    if not 1 <= ranks[0] <= ranks[1]:
        raise UserError(
            f"ranks {ranks[0]} {ranks[1]}: expected the first rank, at least 1, and then the last."
        )
    if not 0 <= margin < 1:
        raise UserError(
            f"margin {margin:g}: expected a share of the clicked title's score, at least 0 and "
            "below 1."
        )
    refuse_existing(out)
    load_tensorflow()

    from dssm_tf.data.preprocessed import Preprocessed
    from dssm_tf.model.semantic_ranker import Encoder, SemanticRanker
    from dssm_tf.tables.hard_negatives import HardNegative, write_hard_negatives
    from dssm_tf.training.mining import by_bm25, by_cosine, hard_pairs

    data = Preprocessed(Path(directory))
    rankers = {name: SemanticRanker.load(run) for name, run in named.items()}
    systems = {name: by_cosine(Encoder(one.model, one.vocabulary)) for name, one in rankers.items()}
    if bm25:
        systems["bm25"] = by_bm25(data)
    queries, titles = data.texts("queries"), data.texts("titles")
    rows = [
        HardNegative(queries[query], titles[title], name, rank, score)
        for name, system in systems.items()
        for query, title, rank, score in hard_pairs(
            data, system, ranks, margin, f"mine {name}" if progress else ""
        )
    ]
    if not rows:
        raise UserError(
            f"no title of {directory} is at ranks {ranks[0]} to {ranks[1]} of what is left without "
            "the clicked ones and those within the margin; start at rank 1, or lower the margin."
        )
    write_hard_negatives(out, rows)
    return rows
