"""The letter trigrams of a model, most frequent first, and the ids of the n-grams of a word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.text.fields import truncate_word
from dssm_tf.text.letter_ngrams import (
    BOUNDARY,
    bucket,
    letter_ngrams,
    whole_word,
    without_mark,
)
from dssm_tf.text.rules import Rules


class Vocabulary:
    """Maps letter trigrams to ids: 0 is padding, then known trigrams from 1, then hash buckets.

    Records, checkpoints and exported models contain its fingerprint, so that they are used with
    the same ids.

    Args:
        ngrams: distinct trigrams, most frequent first; may end with whole words, `#hammer#`.
        rules: by which texts become words.
    """

    def __init__(self, ngrams: Iterable[str], rules: Rules) -> None:
        self.ngrams = tuple(ngrams)
        self.rules = rules
        self._ids = {ngram: i for i, ngram in enumerate(self.ngrams, start=1)}
        if len(self._ids) != len(self.ngrams):
            raise ValueError(
                f"The vocabulary lists {len(self.ngrams)} trigrams, but only "
                f"{len(self._ids)} are distinct; list each one once."
            )
        self.whole_words = {
            ngram: row for ngram, row in self._ids.items() if len(without_mark(ngram)[1]) > 3
        }
        self._word_cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        max_size: int,
        rules: Rules,
        min_count: int,
    ) -> Vocabulary:
        """The `max_size` most frequent trigrams; equal counts in code point order."""
        frequent = [ngram for ngram, count in counts.items() if count >= min_count]
        frequent.sort(key=lambda ngram: (-counts[ngram], ngram))
        return cls(frequent[:max_size], rules)

    def with_words(self, words: Iterable[str]) -> Vocabulary:
        """A copy with new whole words at the end; words of one letter are left out."""
        candidates = dict.fromkeys(whole_word(word, self.rules.max_letters) for word in words)
        new = [
            ngram
            for ngram in candidates
            if ngram not in self._ids and len(without_mark(ngram)[1]) > 3
        ]
        return Vocabulary((*self.ngrams, *new), self.rules)

    @property
    def size(self) -> int:
        """Number of ids without padding: n-grams and hash buckets."""
        return len(self.ngrams) + self.rules.hash_buckets

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any trigram, their order or a rule."""
        content = "\n".join([repr(self.rules), *self.ngrams])
        return sha256(content.encode()).hexdigest()[:16]

    def words(self, text: str) -> list[str]:
        """The first `max_words` words of a text, each truncated to `max_letters`."""
        letters = self.rules.max_letters
        return [
            truncate_word(word, letters) for word in self.rules.words(text)[: self.rules.max_words]
        ]

    def ngram_ids(self, word: str) -> tuple[int, ...]:
        """Ids of the n-grams of a word, cached; see `look_up`."""
        cached = self._word_cache.get(word)
        if cached is not None:
            return cached
        ids = self.look_up(word)
        if len(self._word_cache) < _CACHED_WORDS:
            self._word_cache[word] = ids
        return ids

    def look_up(self, word: str) -> tuple[int, ...]:
        """Ids of the trigrams of a word, with repetition, then the id of the word if it has one.

        Unseen trigrams get the id of a hash bucket, or are dropped without hash buckets.
        """
        ids = []
        for ngram in letter_ngrams(word, self.rules.max_letters):
            known = self._ids.get(ngram)
            if known is not None:
                ids.append(known)
            elif self.rules.hash_buckets:
                ids.append(1 + len(self.ngrams) + bucket(ngram, self.rules.hash_buckets))
        word_id = self.whole_words.get(whole_word(word, self.rules.max_letters))
        return (*ids,) if word_id is None else (*ids, word_id)

    def unknown_fraction(self, texts: Iterable[str]) -> float:
        """The fraction of the letter trigrams of texts that are not in the vocabulary."""
        trigrams = [
            ngram
            for text in texts
            for word in self.words(text)
            for ngram in letter_ngrams(word, self.rules.max_letters)
        ]
        return sum(ngram not in self._ids for ngram in trigrams) / max(1, len(trigrams))

    def save(self, path: Path) -> None:
        """Writes one n-gram per line, most frequent first, in UTF-8."""
        with atomic_write(path) as file:
            file.writelines(f"{ngram}\n" for ngram in self.ngrams)

    @classmethod
    def load(cls, path: Path, rules: Rules) -> Vocabulary:
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
            if not _is_ngram(line):
                raise UserError(
                    f"{path}:{number} holds {line[:20]!r}; expected a letter trigram "
                    "such as '#ca', or a word such as '#cat#', one per line."
                )
        try:
            return cls(lines, rules)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], Rules]]:
        # Beam pickles a vocabulary without its cache.
        return Vocabulary, (self.ngrams, self.rules)


def _is_ngram(line: str) -> bool:
    """Whether a line is a trigram or a whole word, with or without the number of a field."""
    mark, ngram = without_mark(line)
    if mark not in ("", *"12345"):
        return False
    if len(ngram) > 3:
        return ngram[0] == ngram[-1] == BOUNDARY and BOUNDARY not in ngram[1:-1]
    return len(ngram) == 3 and ngram[1] != BOUNDARY


_CACHED_WORDS = 1_000_000
