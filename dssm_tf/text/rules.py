"""Rules by which texts become words and keys; all code that compares texts uses them.

Texts are lowercased and split at white space and punctuation. Texts of scripts without spaces
become overlapping pairs of characters, see `unspaced`. Numbers are kept; there is no stemming (Shen
et al. 2014, sec. 4). Accents are removed, see `characters`, or kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NewType, get_args

from dssm_tf.common.errors import UserError
from dssm_tf.text.characters import character_map, compose
from dssm_tf.text.fields import MAX_OWN_FIELDS, SEPARATOR, join_fields, mark_word, split_fields
from dssm_tf.text.stable_hash import fingerprint64
from dssm_tf.text.unspaced import split_unspaced

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NgramKind = Literal["pairs", "trigrams", "sorted_trigrams"]
NGRAM_KINDS: tuple[NgramKind, ...] = get_args(NgramKind)
"""Kinds of letter n-grams, in the order of the ids of a word; see `letter_ngrams`."""

Key = NewType("Key", str)
"""The normal form of a text: equal for texts that are equal for every model."""


@dataclass(frozen=True)
class TextRules:
    """Rules by which texts become words. Texts with the same words are equal.

    Each data directory, run, index and export contains its rules. Code without a model uses
    `FOLDED`.

    Args:
        keep_accents: whether words keep their accents, see `characters`.
        max_words: words of a text beyond this many are dropped.
        max_letters: letters of a word beyond this many are dropped.
        hash_buckets: number of extra ids for unseen letter n-grams; 0: they are dropped.
        own_fields: number of fields with separate letter n-grams, see `fields`; 1: all fields share
            them.
        letter_ngrams: kinds of letter n-grams of a word; sorted as in `NGRAM_KINDS`.

    Raises:
        ValueError: a value is out of range.
    """

    keep_accents: bool
    max_words: int = 64
    max_letters: int = 64
    hash_buckets: int = 0
    own_fields: int = 1
    letter_ngrams: tuple[NgramKind, ...] = ("trigrams",)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> TextRules:
        """Creates rules from the values of a file.

        Raises:
            TypeError: a rule is unknown or missing.
            ValueError: a value is out of range.
        """
        return cls(**saved)

    def __post_init__(self) -> None:
        object.__setattr__(self, "letter_ngrams", ordered_kinds(self.letter_ngrams))
        if not isinstance(self.keep_accents, bool):
            raise ValueError(f"keep_accents is {self.keep_accents!r:.60}; expected true or false")
        for name, low, high in (
            ("max_words", 1, 1 << 53),
            ("max_letters", 1, 1 << 53),
            ("hash_buckets", 0, 1 << 53),
            ("own_fields", 1, MAX_OWN_FIELDS),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(
                    f"{name} is {value!r:.60}; expected a whole number from {low} to {high}"
                )

    def words(self, text: str) -> list[str]:
        """All words of a text without truncation; with `own_fields`, marked with their field.

        >>> FOLDED.words("The Wizard-of-Oz, 1939! Leixões")
        ['the', 'wizard', 'of', 'oz', '1939', 'leixoes']
        >>> TextRules(keep_accents=True).words("Leixões")
        ['leixões']
        """
        if self.own_fields == 1 or SEPARATOR not in text:
            return self._split(text)
        fields = enumerate(split_fields(text, self.own_fields))
        return [mark_word(word, field) for field, part in fields for word in self._split(part)]

    def chunks(self, text: str) -> list[str]:
        """The parts of a text between separators; texts without spaces are not split into words.

        >>> FOLDED.chunks("Tokyo, 東京都"), FOLDED.words("Tokyo, 東京都")
        (['tokyo', '東京都'], ['tokyo', '東京', '京都'])
        """
        return compose(text.translate(character_map(self.keep_accents))).split()

    def _split(self, text: str) -> list[str]:
        # After translation the plain space is the only white space left.
        if text.isascii():  # takes a third of the time
            return text.encode("ascii").translate(_ascii_translation()).decode("ascii").split()
        return split_unspaced(compose(text.translate(character_map(self.keep_accents)))).split()

    def key(self, text: str) -> Key:
        """The words of a text joined by single spaces; fields of a title stay separated.

        So two texts have equal keys if and only if their fields have the same words: `東京都` has
        the key `東京 京都`. The key of a key is the key itself.

        >>> FOLDED.key("  Ice   CREAM?  ")
        'ice cream'
        >>> FOLDED.key("Halo: Reach ␟ Microsoft ␟ ")
        'halo reach␟microsoft'
        """
        return Key(join_fields([" ".join(self._split(field)) for field in split_fields(text)]))

    def id(self, text: str) -> int:
        """The fingerprint of a text's key."""
        return fingerprint64(self.key(text))

    def ids(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """The ids of texts, int64 `(texts,)`."""
        import numpy as np

        return np.fromiter(map(self.id, texts), np.int64)

    def distinct(self, texts: Iterable[str]) -> tuple[list[Key], NDArray[np.intp]]:
        """The distinct keys of texts, and the index of the key of each text.

        A matrix product can differ in the last bit from column to column. Equal titles share one
        column, so their scores tie.

        >>> FOLDED.distinct(["Red shoe", "hat", "red SHOE!"])
        (['red shoe', 'hat'], array([0, 1, 0]))
        """
        import numpy as np

        indices: dict[Key, int] = {}
        index_of_text = [indices.setdefault(self.key(text), len(indices)) for text in texts]
        return list(indices), np.array(index_of_text, np.intp)

    def check_same(self, other: TextRules, source: str) -> None:
        """Raises UserError if other rules differ from these; the message names each difference.

        Args:
            other: the current rules.
            source: name of the file or run with these rules, for the message.
        """
        old, new = asdict(self), asdict(other)
        if changed := [name for name in old if old[name] != new[name]]:
            earlier, current = (
                ", ".join(_flag(name, rules[name]) for name in changed) for rules in (old, new)
            )
            raise UserError(
                f"{source} was made with {earlier}; now it is {current}. Letter n-grams depend on "
                "these text rules. Run preprocess with the earlier flags."
            )


@cache
def _ascii_translation() -> bytes:
    """The mapping of ASCII characters for `bytes.translate`; none of them is deleted."""
    mapping = {
        code: new_code
        for code, new_code in character_map(True).items()
        if isinstance(new_code, int)
    }
    return bytes(mapping.get(code, code) for code in range(128)) + bytes(128)


def ordered_kinds(names: Collection[Any]) -> tuple[NgramKind, ...]:
    """Kinds of letter n-grams in their fixed order.

    Args:
        names: of `NGRAM_KINDS`, in any order.

    Raises:
        ValueError: a name is unknown or repeated, or there is none.

    >>> ordered_kinds(["trigrams", "pairs"])
    ('pairs', 'trigrams')
    """
    kinds = tuple(kind for kind in NGRAM_KINDS if kind in names)
    if not kinds or len(kinds) < len(names):
        raise ValueError(
            f"letter_ngrams is {names!r:.80}; expected one or more of {', '.join(NGRAM_KINDS)}, "
            "each once"
        )
    return kinds


FOLDED = TextRules(keep_accents=False)
"""Rules without accents and with shared fields, for baselines, splits and judged queries."""


def _flag(name: str, value: object) -> str:
    """A text rule as flags of preprocess.

    >>> _flag("max_words", 9), _flag("keep_accents", False), _flag("own_fields", 3)
    ('--max-words 9', 'no --keep-accents', '--field-rows own with 3 --title-fields')
    """
    if name == "own_fields":
        return (
            f"--field-rows own with {value} --title-fields" if value != 1 else "--field-rows shared"
        )
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, tuple):
        return f"{flag} {','.join(value)}"
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    return f"{flag} {value}"
