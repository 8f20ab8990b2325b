"""Rankers and judgments small enough to check by hand."""

import numpy as np

from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.tables.judgments import CorpusTitle, Judgment


class TableRanker:
    """Reads scores from a table, 0 if a pair is missing, and records the calls."""

    def __init__(self, table, name="table"):
        self.name = name
        self.table = table
        self.calls = []

    def score(self, query, titles):
        return np.array([self.table.get((query, title), 0.0) for title in titles])

    def score_matrix(self, queries, titles):
        self.calls.append((list(queries), titles))
        return np.stack([self.score(query, titles) for query in queries])


JUDGMENTS = [
    Judgment("q2", "hat", "d2", "red hat", 3.0),
    Judgment("q1", "shoe", "d1", "red shoe", 2.0),
    Judgment("q2", "hat", "d3", "blue box", 1.0),
    Judgment("q1", "shoe", "d3", "blue box", 0.0),
    Judgment("q3", "tie", "d3", "blue box", 0.0),
]
CORPUS = [
    CorpusTitle("d4", "green tie"),
    CorpusTitle("d3", "blue box"),
    CorpusTitle("d2", "red hat"),
    CorpusTitle("d1", "red shoe"),
]
GOOD = TableRanker({("hat", "red hat"): 2.0, ("hat", "blue box"): 1.0, ("shoe", "red shoe"): 1.0})
BAD = TableRanker({("hat", "green tie"): 2.0, ("hat", "blue box"): 1.0, ("shoe", "blue box"): 1.0})


def texts(name, count):
    """Texts in the order in which a task sorts them."""
    return sorted((f"{name} {number}" for number in range(count)), key=tie_key)


def rankers_on_many_queries(seed=0, queries=60):
    """Two rankers, judgments and a corpus. `better` is right about twice as often as `worse`."""
    random = np.random.default_rng(seed)
    judgments, tables = [], {"worse": {}, "better": {}}
    for q in range(queries):
        judgments.append(Judgment(f"q{q}", f"query {q}", f"d{q:03d}", f"title {q}", 1.0))
        for name, chance in (("worse", 0.4), ("better", 0.8)):
            tables[name][f"query {q}", f"title {q}"] = float(random.random() < chance) - 0.5
    corpus = [CorpusTitle(f"d{q:03d}", f"title {q}") for q in range(queries)]
    return {name: TableRanker(table) for name, table in tables.items()}, judgments, corpus
