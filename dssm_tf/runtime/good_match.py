"""Decides whether a search has a good match, by one rule for the whole package.

A search has a good match if one of the first `FIRST_TITLES` titles of the ranking

- has a similarity of at least the model's `cutoff`, or
- has all words of the query, or
- is pinned by a rule by hand, or has remembered clicks for the query.

The similarity is the score without the prior, remembered clicks and boosts, so popularity does not
make a title a good match. Training chooses the cutoff, see `dssm_tf.training.search_settings`. If
it cannot, the cutoff is -1, so every title is a good match. The terminal, the search page, the
search API, the metrics and the client of search engines use this rule. docs/retrieval.md has its
measured errors.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_TITLES = 10
"""The number of titles at the top of a ranking that are checked."""


def is_good_match(
    cutoff: float, similarity: float, query: Iterable[str], title: Iterable[str]
) -> bool:
    """Whether the similarity of a title reaches the cutoff, or the title has all query words.

    Args:
        cutoff: the cutoff of the model.
        similarity: the score without prior, remembered clicks and boosts.
        query: the words of the query, at least one.
        title: the words of the title.

    >>> is_good_match(0.5, 0.6, ["red"], ["blue"]), is_good_match(0.5, 0.1, ["red"], ["red", "box"])
    (True, True)
    """
    return similarity >= cutoff or {*query} <= {*title}
