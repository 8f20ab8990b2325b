"""The value of a metric for one query, and random queries."""

import polars as pl
from hypothesis import strategies as st

from dssm_tf.evaluation import metrics

CUTOFFS = st.integers(1, 12)
GRADES = st.sampled_from([0.33, 1, 2, 3, 4])


def value(name, ranks, grades):
    """The metric of a query whose relevant titles have these ranks and grades; None: not ranked."""
    titles = {"query": [0] * len(ranks), "rank": ranks, "grade": grades}
    schema = {"query": pl.Int64, "rank": pl.Float64, "grade": pl.Float64}
    return float(metrics.per_query(pl.DataFrame(titles, schema=schema), 1, [name])[name][0])


@st.composite
def queries(draw, grade=GRADES):
    """Ranks up to 10 and grades of the relevant titles of one query."""
    ranks = draw(st.lists(st.integers(1, 10), unique=True, max_size=6))
    not_ranked = [None] * draw(st.integers(0 if ranks else 1, 3))
    grades = st.lists(grade, min_size=len(ranks + not_ranked), max_size=len(ranks + not_ranked))
    return ranks + not_ranked, draw(grades)
