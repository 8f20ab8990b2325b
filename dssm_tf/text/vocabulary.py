"""The letter trigrams a model knows, most frequent first, and the ids of a word's trigrams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.text.fields import MOST_OWN_FIELDS, SEPARATOR, cut, marked, split_fields
from dssm_tf.text.letter_ngrams import BOUNDARY, MAX_LETTERS, MAX_WORDS, bucket, letter_ngrams
from dssm_tf.text.normalize import normalize, words


@dataclass(frozen=True)
class TextLimits:
    """How much of a text is read, and what becomes of accents and of unseen trigrams.

    Args:
        max_words: words of a text beyond this many are dropped.
        max_letters: letters of a word beyond this many are dropped.
        hash_buckets: unseen trigrams are dropped when 0, else share this many extra ids.
        keep_accents: whether words keep their accents, see `accents`.
        own_fields: fields of a text whose trigrams are told apart, see `fields`; 1: none are.
    """

    max_words: int = MAX_WORDS
    max_letters: int = MAX_LETTERS
    hash_buckets: int = 0
    keep_accents: bool = False
    own_fields: int = 1

    @classmethod
    def of_json(cls, saved: dict[str, Any]) -> TextLimits:
        """Those that a file holds; accents were kept where it says nothing of them.

        Raises:
            TypeError: there are others, or they are none.
            ValueError: `keep_accents` is neither true nor false, or `own_fields` no number of
                fields.
        """
        found = cls(**{"keep_accents": True, **saved})
        if not isinstance(found.keep_accents, bool):
            raise ValueError(f"keep_accents is {found.keep_accents!r:.60}; expected true or false")
        if found.own_fields not in range(1, MOST_OWN_FIELDS + 1):
            raise ValueError(
                f"own_fields is {found.own_fields!r:.60}; expected a number from 1 to 6"
            )
        return found

    def split(self, text: str) -> list[str]:
        """All words of a text, whole; see `Vocabulary.split`."""
        if self.own_fields == 1 or SEPARATOR not in text:
            return words(text, self.keep_accents)
        fields = enumerate(split_fields(text, self.own_fields))
        return [marked(word, at) for at, one in fields for word in words(one, self.keep_accents)]

    def split_normal(self, form: str) -> list[str]:
        """All words of a text that `normalize` gave."""
        return self.split(form) if SEPARATOR in form else form.split()


class Vocabulary:
    """Maps letter trigrams to ids: 0 is padding, known trigrams from 1, then the hash buckets.

    Differs from a plain dictionary by its fingerprint, which ties records, checkpoints and
    exported models to the ids they were made with.

    Args:
        ngrams: distinct trigrams, most frequent first.
        limits: how much of a text is read.
    """

    def __init__(self, ngrams: Iterable[str], limits: TextLimits | None = None) -> None:
        self.ngrams = tuple(ngrams)
        self.limits = limits or TextLimits()
        self._ids = {ngram: i for i, ngram in enumerate(self.ngrams, start=1)}
        if len(self._ids) != len(self.ngrams):
            raise ValueError(
                f"The vocabulary lists {len(self.ngrams)} trigrams of which only "
                f"{len(self._ids)} are distinct; list each one once."
            )
        self._word_cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        max_size: int,
        min_count: int = 1,
        limits: TextLimits | None = None,
    ) -> Vocabulary:
        """The `max_size` most frequent trigrams; equal counts in code point order."""
        kept = [ngram for ngram, count in counts.items() if count >= min_count]
        kept.sort(key=lambda ngram: (-counts[ngram], ngram))
        return cls(kept[:max_size], limits)

    @property
    def size(self) -> int:
        """Number of ids in use, padding not counted: trigrams and hash buckets."""
        return len(self.ngrams) + self.limits.hash_buckets

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any trigram, their order or a limit."""
        limits = self.limits
        head = f"{limits.max_words} {limits.max_letters} {limits.hash_buckets}"
        if not limits.keep_accents:
            head += " accents folded"  # older vocabularies keep them, and their fingerprints
        if limits.own_fields > 1:
            head += f" {limits.own_fields} fields"
        return sha256((head + "\n" + "\n".join(self.ngrams)).encode()).hexdigest()[:16]

    def words(self, text: str) -> list[str]:
        """The first `max_words` words of a text, each cut to `max_letters`."""
        letters = self.limits.max_letters
        return [cut(word, letters) for word in self.split(text)[: self.limits.max_words]]

    def split(self, text: str) -> list[str]:
        """All words of a text, whole, with or without their accents, and marked by their field."""
        return self.limits.split(text)

    def split_normal(self, form: str) -> list[str]:
        """The same of a text that `normalize` gave, in less time."""
        return self.limits.split_normal(form)

    def normalize(self, text: str) -> str:
        """Its words joined by single spaces, and its fields: one to the model if equal under it."""
        return normalize(text, self.limits.keep_accents)

    def ngram_ids(self, word: str) -> tuple[int, ...]:
        """Ids of the word's trigrams, remembered; see `look_up`."""
        cached = self._word_cache.get(word)
        if cached is not None:
            return cached
        ids = self.look_up(word)
        if len(self._word_cache) < _CACHED_WORDS:
            self._word_cache[word] = ids
        return ids

    def look_up(self, word: str) -> tuple[int, ...]:
        """Ids of the word's trigrams, with repetition; unseen ones dropped or in a bucket."""
        found = []
        for ngram in letter_ngrams(word, self.limits.max_letters):
            known = self._ids.get(ngram)
            if known is not None:
                found.append(known)
            elif self.limits.hash_buckets:
                found.append(1 + len(self.ngrams) + bucket(ngram, self.limits.hash_buckets))
        return tuple(found)

    def unknown_share(self, texts: Iterable[str]) -> float:
        """The share of the texts' letter trigrams that it does not list; 0 where there is none."""
        trigrams = [
            ngram
            for text in texts
            for word in self.words(text)
            for ngram in letter_ngrams(word, self.limits.max_letters)
        ]
        return sum(ngram not in self._ids for ngram in trigrams) / max(1, len(trigrams))

    def save(self, path: Path) -> None:
        """Writes one trigram a line, most frequent first, in UTF-8."""
        with atomic_write(path) as file:
            file.writelines(f"{ngram}\n" for ngram in self.ngrams)

    @classmethod
    def load(cls, path: Path, limits: TextLimits | None = None) -> Vocabulary:
        """Reads a file written by `save`.

        Raises:
            UserError: the file is missing, or a line is not a trigram.
        """
        try:
            lines = Path(path).read_text("utf-8").split("\n")
        except FileNotFoundError:
            raise UserError(f"{path} does not exist; preprocess writes it.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 ({error}); is it a vocabulary?") from None
        if lines[-1] == "":
            lines.pop()
        for number, line in enumerate(lines, start=1):
            if not _is_trigram(line):
                raise UserError(
                    f"{path}:{number} holds {line[:20]!r}; expected a letter trigram "
                    "such as '#ca', one a line."
                )
        try:
            return cls(lines, limits)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None

    def __reduce__(
        self,
    ) -> tuple[
        type, tuple[tuple[str, ...], TextLimits]
    ]:  # the cache stays behind when Beam pickles a vocabulary
        return Vocabulary, (self.ngrams, self.limits)


def _is_trigram(line: str) -> bool:
    """Whether a line is a trigram, perhaps after the number of its field."""
    ngram = line[1:] if len(line) == 4 and line[0] in "12345" else line
    return len(ngram) == 3 and ngram[1] != BOUNDARY


_CACHED_WORDS = 1_000_000
