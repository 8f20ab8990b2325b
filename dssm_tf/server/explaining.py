"""Explains titles of an index, for the search page and `/v1/search`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import AnyIndex

if TYPE_CHECKING:
    from dssm_tf.analysis.explanation import Explanation

_MAX_WORDS = 64  # of the query and the title together


def explain_title(index: AnyIndex, ranking: str, query: str, title: str) -> Explanation:
    """Explains the score of a title.

    Args:
        index: the index that has the title.
        ranking: the ranking that has the title: `semantic` or `bm25`.
        query: the query.
        title: the text of the title.

    Raises:
        UserError: the texts have too many words, or see `dssm_tf.explain`.
    """
    from dssm_tf.analysis.explanation import explain

    words = index.model.vocabulary.rules.words
    if len(words(query)) + len(words(title)) > _MAX_WORDS:
        raise UserError(f"Only pairs with at most {_MAX_WORDS} words are explained.")
    ranker: Any = index.model
    if ranking == "bm25" and not isinstance(index, MaxSimIndex):
        ranker = index.bm25
    return explain(ranker, query, title)
