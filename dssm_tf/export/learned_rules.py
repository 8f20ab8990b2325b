"""Writes the similar words that a model has learned to a file of rules, to review and edit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.export.load import load
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import NO_RULES, SIMILAR
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.text.fields import SEPARATOR
from dssm_tf.text.letter_ngrams import BOUNDARY

MIN_SIMILARITY = 0.5
"""Minimum similarity of the pairs that are written."""
MAX_SIMILAR_WORDS = 5
"""Maximum number of similar words that are written for each word."""

_HEADER = """\
# Similar words of the model {name}: for each word the {most} most similar ones, from {lowest}.
# Change a similarity, or replace "similar" by "never" and delete the number. Lines that you delete
# keep the learned similarity; keep only those that you changed.
"""


def export_learned_rules(model: Path | str, out: Path, titles: Iterable[str] | None = None) -> int:
    """Writes the most similar words of each word, in the format of rules by hand.

    Args:
        model: a run or compact model with the score maxsim; its rules by hand are ignored.
        out: the file to write.
        titles: the catalog, raw texts; by default the titles of the training data.

    Returns:
        The number of rules.

    Raises:
        UserError: the model is unusable, or `out` exists.
    """
    if out.exists():
        raise UserError(f"{out} exists; choose another name, or delete it.")
    ranker = load(model)
    if not isinstance(ranker, MaxSimRanker):
        raise UserError(f"{model} is not a run or compact model with the score maxsim.")
    maxsim = ranker.maxsim.with_rules(NO_RULES)
    words = {*maxsim.frequencies.words}
    if titles is not None:
        words = {word for title in titles for word in ranker.vocabulary.words(title)}
    catalog_words = sorted(word for word in words if SEPARATOR not in word)
    ngrams = maxsim.vocabulary.whole_words
    words_with_own_row = {ngram.replace(BOUNDARY, "") for ngram in ngrams if SEPARATOR not in ngram}
    known = [*catalog_words, *sorted(words_with_own_row - words)]
    similar_of_each = SimilarWords(maxsim, catalog_words, MAX_SIMILAR_WORDS + 1).of_each(known)
    written: set[frozenset[str]] = set()
    with atomic_write(out) as file:
        file.write(_HEADER.format(name=ranker.name, most=MAX_SIMILAR_WORDS, lowest=MIN_SIMILARITY))
        for word, similar in zip(known, similar_of_each, strict=True):
            others = [
                (catalog_words[row], similarity)
                for row, similarity in zip(*similar, strict=True)
                if similarity >= MIN_SIMILARITY and catalog_words[row] != word
            ]
            for other, similarity in others[:MAX_SIMILAR_WORDS]:
                if (pair := frozenset((word, other))) not in written:
                    written.add(pair)
                    file.write(f"{SIMILAR}\t{word}\t{other}\t{similarity:.3g}\n")
    return len(written)
