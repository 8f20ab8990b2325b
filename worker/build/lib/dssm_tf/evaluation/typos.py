"""Judged queries with a typing error, ranked beside the queries as they are."""

from __future__ import annotations

from collections.abc import Iterable

from dssm_tf.tables.judgments import Judgment
from dssm_tf.text.typos import with_typo

SUFFIX = "~typo"
"""How the id of a query with a typing error ends; before it stands that of the query itself."""


def misspelt(judgments: Iterable[Judgment]) -> list[Judgment]:
    """The same grades for each query with a typing error."""
    return [
        one._replace(query_id=one.query_id + SUFFIX, query=with_typo(one.query))
        for one in judgments
    ]
