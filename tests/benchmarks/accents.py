"""What folding accents is worth: real names with accents, asked for with them and without.

    python -m tests.benchmarks.accents --data FOLDER

FOLDER holds Wikispeedia's `docs_first200.tsv` and `nav_clicks.tsv`. The titles of its articles are
ranked for those that have a letter with an accent, typed as they are and as a keyboard without
accents has them; only the article itself is right. `dssm` learns from the clicks of people who went
from article to article, `bm25` and `trigram_tfidf` from the titles. Each with accents folded, as
it is by default, and kept.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dssm_tf.common.quiet import load_tensorflow
from dssm_tf.config import find_config, load_config
from dssm_tf.evaluation.evaluate import evaluate
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, Judgment, write_corpus
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
    parser.add_argument("--data", type=Path, required=True, help="folder of Wikispeedia's tables")
    parser.add_argument("--epochs", type=int, default=5, help="of dssm")
    options = parser.parse_args(argv)
    load_tensorflow()

    from dssm_tf.model.semantic_ranker import SemanticRanker
    from dssm_tf.training.train import train
    from pipelines.preprocess import run

    def rows(name: str) -> list[list[str]]:
        lines = (options.data / name).read_text("utf-8").splitlines()[1:]
        return [line.split("\t") for line in lines]

    corpus = [CorpusTitle(f"d{row[0]}", row[1]) for row in rows("docs_first200.tsv")]
    titles = [one.title for one in corpus]
    asked = accented(titles)
    ids = {one.title: one.doc_id for one in corpus}
    found: dict[str, list[float]] = {}
    with TemporaryDirectory() as place:
        folder = Path(place)
        clicks = "".join("\t".join(row) + "\n" for row in rows("nav_clicks.tsv"))
        (folder / "log.tsv").write_text(f"query\ttitle\tclicks\n{clicks}", "utf-8")
        write_corpus(folder / "corpus.tsv", corpus)
        for keep in (False, True):
            systems = {}
            for name in ("bm25", "trigram_tfidf"):
                systems[name] = BASELINES[name]()
                systems[name].keep_accents = keep
                systems[name].fit([], titles)
            data = folder / f"data-{keep}"
            flags = ["--input", str(folder / "log.tsv"), "--corpus", str(folder / "corpus.tsv")]
            if run([*flags, "--output", str(data), *(["--keep-accents"] if keep else [])]):
                sys.exit(1)
            changes = [f"training.epochs={options.epochs}", "training.refit=false"]
            train(load_config(find_config("dssm"), changes), data, folder / f"run-{keep}")
            systems["dssm"] = SemanticRanker.load(folder / f"run-{keep}", "dssm")
            for typed in (str, normalize):  # with them, without
                judged = [
                    Judgment(f"q{n}", typed(title), ids[title], title, 1.0)
                    for n, title in enumerate(asked)
                ]
                values = evaluate(systems, judged, corpus, metrics=METRICS).values
                for name in systems:
                    row = found.setdefault(f"{name}, {'kept' if keep else 'folded'}", [])
                    row += [float(np.nanmean(values[name][metric])) for metric in METRICS]
    heads = [f"typed {how} them: {metric}" for how in ("with", "without") for metric in METRICS]
    lines = [f"{len(asked)} titles with accents among {len(titles):,}", ""]
    lines += [f"| accents | {' | '.join(heads).replace('ndcg', 'NDCG')} |", "|---" * 5 + "|"]
    lines += [
        f"| {name} | {' | '.join(f'{one:.3f}' for one in row)} |" for name, row in found.items()
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
