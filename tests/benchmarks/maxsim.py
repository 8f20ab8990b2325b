"""Speed of exact search by a maxsim model, compared with BM25 by bm25s on the same titles.

    dssm export --model RUN --out COMPACT --format compact
    OMP_NUM_THREADS=1 python -m tests.benchmarks.maxsim COMPACT/NAME corpus.tsv queries.txt

prints the seconds to index the titles, and the milliseconds per query to score all of them: `first`
for queries whose words are new to the index, `again` when their similar words are cached. Times are
processor times of all threads, which depend little on other processes. Printed is the minimum over
the rounds; the time of a round is the median over its queries.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from time import process_time

import numpy as np

from dssm_tf.commands.flags import DEFAULT_TABLE_FLAGS
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.runtime.maxsim import InvertedIndex
from dssm_tf.tables.judgments import read_corpus
from dssm_tf.tables.read import scan_texts

QUERIES, ROUNDS = 500, 3


def milliseconds(search: Callable[[Sequence[str]], object], queries: list[list[str]]) -> float:
    """The median processor time of a search."""
    times = []
    for query in queries:
        started = process_time()
        search(query)
        times.append(process_time() - started)
    return 1000 * float(np.median(times))


def main(model: str, corpus: str, queries: str) -> None:
    """Measures and prints the times."""
    import bm25s

    ranker = load(model)
    if not isinstance(ranker, MaxSimRanker):
        raise SystemExit(f"{model} is not a maxsim model.")
    layout = DEFAULT_TABLE_FLAGS.layout()
    rules, words = ranker.vocabulary.rules, ranker.vocabulary.words
    distinct, _ = rules.distinct(row.title for row in read_corpus(Path(corpus), layout))
    titles = list(map(words, distinct))
    frames = scan_texts(Path(queries), "query", layout)
    texts = dict.fromkeys(text for frame in frames for text in frame["text"])
    query_words = [query for text in islice(texts, QUERIES) if (query := words(text))]
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    results: dict[str, list[float]] = {name: [] for name in ("index", "first", "again", "bm25s")}
    for _ in range(ROUNDS):
        started = process_time()
        index = InvertedIndex.from_titles(ranker.maxsim, titles)
        results["index"].append(process_time() - started)
        results["first"].append(milliseconds(index.scores, query_words))
        results["again"].append(milliseconds(index.scores, query_words))
        bm25 = bm25s.BM25(method="lucene", backend="numpy")
        bm25.index(titles, create_empty_token=False, show_progress=False)
        indexed = [[word for word in query if word in bm25.vocab_dict] for query in query_words]
        results["bm25s"].append(milliseconds(bm25.get_scores, [*filter(None, indexed)]))
    index_seconds, *times = (min(values) for values in results.values())
    sys.stdout.write(f"{len(titles):,} titles indexed in {index_seconds:.2f} s\n")
    for name, time in zip(list(results)[1:], times, strict=True):
        sys.stdout.write(f"{name:<6} {time:.2f} ms per query\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
