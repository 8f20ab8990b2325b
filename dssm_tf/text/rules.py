"""How a text is read: one object that everything which compares texts is given.

Lower case, punctuation to space, white-space split; numbers kept, no stemming (S14 sec. 4). Accents
are folded, see `characters`, or kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NewType

from dssm_tf.common.errors import UserError
from dssm_tf.text.characters import character_map, compose
from dssm_tf.text.fields import MOST_OWN_FIELDS, SEPARATOR, join_fields, marked, split_fields
from dssm_tf.text.fingerprint import fingerprint64

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Key = NewType("Key", str)
"""A text in its normal form: equal for texts that no model can tell apart."""


@dataclass(frozen=True)
class Rules:
    """What of a text is read, and which texts are one.

    A data directory, a run, an index and an export have theirs. `FOLDED` are those of what is
    read without a model.

    Args:
        keep_accents: whether words keep their accents, see `characters`.
        max_words: words of a text beyond this many are dropped.
        max_letters: letters of a word beyond this many are dropped.
        hash_buckets: unseen trigrams are dropped when 0, else share this many extra ids.
        own_fields: fields of a text whose trigrams are told apart, see `fields`; 1: none are.
    """

    keep_accents: bool
    max_words: int = 64
    max_letters: int = 64
    hash_buckets: int = 0
    own_fields: int = 1

    @classmethod
    def of_json(cls, saved: dict[str, Any]) -> Rules:
        """Those that a file holds.

        Raises:
            TypeError: there are others, or some are missing.
            ValueError: one is out of its range.
        """
        rules = cls(**saved)
        if not isinstance(rules.keep_accents, bool):
            raise ValueError(f"keep_accents is {rules.keep_accents!r:.60}; expected true or false")
        for name, low, high in (
            ("max_words", 1, 1 << 53),
            ("max_letters", 1, 1 << 53),
            ("hash_buckets", 0, 1 << 53),
            ("own_fields", 1, MOST_OWN_FIELDS),
        ):
            value = getattr(rules, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(
                    f"{name} is {value!r:.60}; expected a whole number from {low} to {high}"
                )
        return rules

    def words(self, text: str) -> list[str]:
        """All words of a text, whole; those of fields with rows of their own are marked.

        >>> FOLDED.words("The Wizard-of-Oz, 1939! Leixões")
        ['the', 'wizard', 'of', 'oz', '1939', 'leixoes']
        >>> Rules(keep_accents=True).words("Leixões")
        ['leixões']
        """
        if self.own_fields == 1 or SEPARATOR not in text:
            return self._split(text)
        fields = enumerate(split_fields(text, self.own_fields))
        return [marked(word, at) for at, one in fields for word in self._split(one)]

    def _split(self, text: str) -> list[str]:
        # After translation the plain space is the only white space left.
        if text.isascii():  # a third of the time, for what most words are made of
            return text.encode("ascii").translate(_ascii_translation()).decode("ascii").split()
        return compose(text.translate(character_map(self.keep_accents))).split()

    def key(self, text: str) -> Key:
        """The words of a text, joined by single spaces; fields of a title stay apart.

        >>> FOLDED.key("  Ice   CREAM?  ")
        'ice cream'
        >>> FOLDED.key("Halo: Reach ␟ Microsoft ␟ ")
        'halo reach␟microsoft'
        """
        return Key(join_fields([" ".join(self._split(one)) for one in split_fields(text)]))

    def id(self, text: str) -> int:
        """The fingerprint of a text's key."""
        return fingerprint64(self.key(text))

    def column(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """The ids of texts, int64 `(texts,)`."""
        import numpy as np

        return np.fromiter(map(self.id, texts), np.int64)

    def distinct(self, texts: Iterable[str]) -> tuple[list[Key], NDArray[np.intp]]:
        """The distinct keys of texts, and the place of each text's among them.

        A matrix product can differ in the last bit from column to column, so titles that no model
        can tell apart share one column, and tie.

        >>> FOLDED.distinct(["Red shoe", "hat", "red SHOE!"])
        (['red shoe', 'hat'], array([0, 1, 0]))
        """
        import numpy as np

        places: dict[Key, int] = {}
        shared = [places.setdefault(self.key(text), len(places)) for text in texts]
        return list(places), np.array(shared, np.intp)

    def check_same(self, other: Rules, source: str) -> None:
        """Raises UserError where texts are read by other rules than before, naming each.

        Args:
            other: the rules of today.
            source: what has these rules, as the message calls it.
        """
        old, new = asdict(self), asdict(other)
        if changed := [name for name in old if old[name] != new[name]]:
            then, today = (
                ", ".join(_flag(name, rules[name]) for name in changed) for rules in (old, new)
            )
            raise UserError(
                f"{source} was made with {then}, and now it is {today}: trigrams of other text "
                "rules are other trigrams. Run preprocess as then."
            )


FOLDED = Rules(keep_accents=False)
"""Without accents, no field's words told apart: of baselines, splits and judged queries."""


@cache
def _ascii_translation() -> bytes:
    """The rule of ASCII, of which nothing is deleted, as `bytes.translate` wants it."""
    found = {code: to for code, to in character_map(True).items() if isinstance(to, int)}
    return bytes(found.get(code, code) for code in range(128)) + bytes(128)


def _flag(name: str, value: object) -> str:
    """A text rule as the flags of preprocess have it.

    >>> _flag("max_words", 9), _flag("keep_accents", False), _flag("own_fields", 3)
    ('--max-words 9', 'no --keep-accents', '--field-rows own with 3 --title-fields')
    """
    if name == "own_fields":
        return (
            f"--field-rows own with {value} --title-fields" if value != 1 else "--field-rows shared"
        )
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    return f"{flag} {value}"
