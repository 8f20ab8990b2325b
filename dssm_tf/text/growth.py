"""A vocabulary that new letter trigrams join: those it has keep their ids."""

from __future__ import annotations

from collections.abc import Mapping

from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import bucket
from dssm_tf.text.vocabulary import Vocabulary


def grow(
    known: Vocabulary, counts: Mapping[str, int], max_size: int, min_count: int = 1
) -> Vocabulary:
    """A vocabulary with the most frequent new trigrams below those that are known.

    Args:
        known: what it goes on from; all of it stays.
        counts: how often each trigram is there, known or not.
        max_size: most trigrams, the known ones included; where these are as many, none is new.
        min_count: new trigrams that are rarer are left out.

    >>> from dssm_tf.text.rules import FOLDED
    >>> grow(Vocabulary(["#ca", "cat"], FOLDED), {"cat": 9, "dog": 1, "#do": 2}, 3).ngrams
    ('#ca', 'cat', '#do')
    """
    listed = set(known.ngrams)
    new = {ngram: count for ngram, count in counts.items() if ngram not in listed}
    room = max(0, max_size - len(known.ngrams))
    joining = Vocabulary.from_counts(new, room, known.rules, min_count)
    return Vocabulary((*known.ngrams, *joining.ngrams), known.rules)


def check_grown(before: Vocabulary, now: Vocabulary, source: str) -> None:
    """Raises UserError where a vocabulary does not go on from another by the same rules.

    Args:
        before: the earlier vocabulary.
        now: that of today's data.
        source: the earlier run, as the message calls it.
    """
    before.rules.check_same(now.rules, source)
    if now.ngrams[: len(before.ngrams)] != before.ngrams:
        raise UserError(
            f"the data's vocabulary ({now.fingerprint}, {len(now.ngrams):,} letter trigrams) does "
            f"not begin with that of {source} ({before.fingerprint}, {len(before.ngrams):,}); "
            f"run preprocess with --vocabulary-from {source}."
        )


def earlier_ids(before: Vocabulary, now: Vocabulary) -> list[int | None]:
    """For each id of today's vocabulary, padding included, the id it had before.

    A new trigram had that of its hash bucket; None where there are none and it was dropped, and for
    a word. Hash
    buckets follow the trigrams, so theirs move.

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
