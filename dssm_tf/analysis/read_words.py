"""The words of a text as a model reads them."""

from __future__ import annotations

from dssm_tf.common.errors import UserError
from dssm_tf.tables.cells import shown_text
from dssm_tf.text.fields import without_marks
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary

_MAX_LENGTH = 200
"""Maximum number of words of a text, and of letters of a word, if the model has no limits."""


def read_words(side: str, text: str, vocabulary: Vocabulary | None) -> tuple[list[str], list[str]]:
    """The words that a model reads in a text, and notes about those that it does not use.

    Args:
        side: `query` or `title`, for messages.
        text: raw text.
        vocabulary: the model's vocabulary; None for a model without one.

    Returns:
        The words in order, with the marks of their fields, and one sentence each about dropped
        words and about words of unknown letters.

    Raises:
        UserError: the text has no word.
    """
    words, notes = (vocabulary or FOLDED).words(text), []
    if not words:
        raise UserError(
            f"the {side} {shown_text(text)!r} has no word, so there is nothing to explain."
        )
    if vocabulary is None:
        if dropped := len(words[_MAX_LENGTH:]):
            notes.append(
                f"The first {_MAX_LENGTH} words of the {side} are explained; {dropped} more are "
                "left out."
            )
        return [word[:_MAX_LENGTH] for word in words[:_MAX_LENGTH]], notes
    if dropped := len(vocabulary.rules.words(text)) - len(words):
        notes.append(
            f"The model reads the first {len(words)} words of the {side}; it drops {dropped} more."
        )
    unknown = dict.fromkeys(word for word in words if not vocabulary.ngram_ids(word))
    if unknown:
        names = ", ".join(f"'{without_marks(word)}'" for word in unknown)
        notes.append(f"The vocabulary has no letter n-gram of {names} in the {side}.")
    return words, notes
