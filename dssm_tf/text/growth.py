"""Extends a vocabulary by new letter n-grams; existing ones keep their ids."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import bucket
from dssm_tf.text.vocabulary import Vocabulary, most_frequent


def grow(
    known: Vocabulary, counts: Mapping[str, int], max_size: int, min_count: int = 1
) -> Vocabulary:
    """Appends the most frequent new letter n-grams to a vocabulary.

    Args:
        known: the vocabulary to extend; all of its n-grams stay.
        counts: how often each letter n-gram occurs, known or new.
        max_size: maximum number of letter n-grams of each kind, including those of `known`. If
            `known` has this number of a kind, none is added.
        min_count: rarer new n-grams are left out.

    >>> from dssm_tf.text.rules import FOLDED
    >>> grow(Vocabulary(["#ca", "cat"], FOLDED), {"cat": 9, "dog": 1, "#do": 2}, 3).ngrams
    ('#ca', 'cat', '#do')
    """
    known_ngrams = set(known.ngrams)
    new = {ngram: count for ngram, count in counts.items() if ngram not in known_ngrams}
    known_counts = known.counts
    sizes: dict[str, int] = {
        kind: max_size - known_counts[kind] for kind in known.rules.letter_ngrams
    }
    return Vocabulary((*known.ngrams, *most_frequent(new, sizes, min_count)), known.rules)


def check_grown(before: Vocabulary, now: Vocabulary, source: str) -> None:
    """Raises UserError unless a vocabulary extends an earlier one with the same text rules.

    Args:
        before: the earlier vocabulary.
        now: the vocabulary of the current data.
        source: name of the earlier run, for the message.
    """
    before.rules.check_same(now.rules, source)
    if now.ngrams[: len(before.ngrams)] != before.ngrams:
        raise UserError(
            f"the data's vocabulary ({now.fingerprint}, {len(now.ngrams):,} letter n-grams) does "
            f"not begin with that of {source} ({before.fingerprint}, {len(before.ngrams):,}); "
            f"run preprocess with --vocabulary-from {source}."
        )


def earlier_ids(before: Vocabulary, now: Vocabulary) -> list[int | None]:
    """The earlier id of each id of the current vocabulary, padding included.

    The earlier id of a new letter n-gram is that of its hash bucket. It is None without hash
    buckets, and for a new whole word. Ids of hash buckets follow those of n-grams, so they change.

    >>> from dssm_tf.text.rules import FOLDED
    >>> earlier_ids(Vocabulary(["#ca"], FOLDED), Vocabulary(["#ca", "cat"], FOLDED))
    [0, 1, None]
    """
    known, buckets = len(before.ngrams), before.rules.hash_buckets
    ids: list[int | None] = [*range(known + 1)]
    for ngram in now.ngrams[known:]:
        if buckets and ngram not in now.whole_words:
            ids.append(1 + known + bucket(ngram, buckets))
        else:
            ids.append(None)
    return [*ids, *range(1 + known, 1 + known + buckets)]
