"""What folding accents is worth: real names with accents, asked for with them and without.

    python -m tests.benchmarks.accents --titles docs_first200.tsv

ranks the titles of Wikispeedia's articles (columns doc_id, title) by BM25 for those that have a
letter with an accent, typed as they are and as a keyboard without accents has them; only the
article itself is right. Once with accents folded, as they are by default, and once kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dssm_tf.baselines.bm25 import BM25
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from dssm_tf.text.normalize import normalize

METRICS = ("ndcg@1", "ndcg@10")


def accented(titles: Sequence[str]) -> list[str]:
    """Titles that folding changes, as far as no other title becomes the same."""
    folded = [normalize(title) for title in titles]
    return [
        title
        for title, plain in zip(titles, folded, strict=True)
        if plain != normalize(title, keep_accents=True) and folded.count(plain) == 1
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--titles", type=Path, required=True, help="TSV with doc_id and title")
    options = parser.parse_args(argv)
    rows = options.titles.read_text("utf-8").splitlines()[1:]
    corpus = [CorpusTitle(f"d{row[0]}", row[1]) for row in (line.split("\t") for line in rows)]
    ids = {one.title: one.doc_id for one in corpus}
    asked = accented([*ids])
    shown = [
        f"{len(asked)} titles with accents among {len(corpus):,}",
        "",
        "| NDCG@1/10 | typed with accents | without |",
        "|---|---|---|",
    ]
    for keep in (False, True):
        bm25 = BM25()
        bm25.keep_accents = keep
        bm25.fit([], [*ids])
        cells = []
        for typed in (str, normalize):  # with them, without
            judged = [
                Judgment(f"q{n}", typed(title), ids[title], title, 1.0)
                for n, title in enumerate(asked)
            ]
            values = evaluate({"bm25": bm25}, judged, corpus, metrics=METRICS).values["bm25"]
            cells.append("/".join(f"{float(np.nanmean(values[one])):.3f}" for one in METRICS))
        shown.append(f"| bm25, accents {'kept' if keep else 'folded'} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(shown) + "\n")


if __name__ == "__main__":
    main()
