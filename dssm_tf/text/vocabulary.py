"""The letter n-grams of a model, most frequent first, and the ids of the n-grams of a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.text.fields import truncate_word
from dssm_tf.text.letter_ngrams import (
    BOUNDARY,
    WHOLE_WORD,
    bucket,
    letter_ngrams,
    parse_ngram,
    whole_word,
)
from dssm_tf.text.rules import NgramKind, TextRules


class Vocabulary:
    """Maps letter n-grams to ids: 0 is padding, known n-grams follow from 1, then hash buckets.

    Records, checkpoints and exported models contain its fingerprint, so that they are used with
    the same ids.

    Args:
        ngrams: distinct letter n-grams, most frequent first; may end with whole words, `#hammer#`.
        rules: the rules by which texts become words.
    """

    def __init__(self, ngrams: Iterable[str], rules: TextRules) -> None:
        self.ngrams = tuple(ngrams)
        self.rules = rules
        self._ids = {ngram: i for i, ngram in enumerate(self.ngrams, start=1)}
        if len(self._ids) != len(self.ngrams):
            raise ValueError(
                f"The vocabulary lists {len(self.ngrams)} letter n-grams, but only "
                f"{len(self._ids)} are distinct; list each one once."
            )
        self.whole_words: dict[str, int] = {}
        for ngram, id in self._ids.items():
            kind = parse_ngram(ngram).kind
            if kind == WHOLE_WORD:
                self.whole_words[ngram] = id
            elif kind not in rules.letter_ngrams:
                raise ValueError(
                    f"The vocabulary lists {ngram!r}, of kind {kind}; its rules have "
                    f"{', '.join(rules.letter_ngrams)}."
                )
        self._word_cache: dict[str, tuple[int, ...]] = {}

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, int],
        max_size: int,
        rules: TextRules,
        min_count: int,
    ) -> Vocabulary:
        """The `max_size` most frequent letter n-grams of each kind; see `most_frequent`."""
        sizes: dict[str, int] = dict.fromkeys(rules.letter_ngrams, max_size)
        return cls(most_frequent(counts, sizes, min_count), rules)

    def with_letter_ngrams(self, kinds: Collection[NgramKind]) -> Vocabulary:
        """A copy with the letter n-grams of some kinds only, in the same order; words stay.

        Args:
            kinds: some kinds of this vocabulary, at least one.
        """
        kinds = tuple(kind for kind in self.rules.letter_ngrams if kind in kinds)
        ngrams = (ngram for ngram in self.ngrams if parse_ngram(ngram).kind in (*kinds, WHOLE_WORD))
        return Vocabulary(ngrams, replace(self.rules, letter_ngrams=kinds))

    def with_words(self, words: Iterable[str]) -> Vocabulary:
        """A copy with new whole words at the end; words of one letter are left out."""
        candidates = dict.fromkeys(whole_word(word, self.rules.max_letters) for word in words)
        new = [
            ngram
            for ngram in candidates
            if ngram not in self._ids and parse_ngram(ngram).kind == WHOLE_WORD
        ]
        return Vocabulary((*self.ngrams, *new), self.rules)

    @property
    def size(self) -> int:
        """Number of ids without padding: n-grams and hash buckets."""
        return len(self.ngrams) + self.rules.hash_buckets

    @property
    def counts(self) -> Counter[str]:
        """Number of n-grams of each kind, `WHOLE_WORD` included; see `parse_ngram`."""
        return Counter(parse_ngram(ngram).kind for ngram in self.ngrams)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any n-gram, their order or a rule."""
        # Not `repr(self.rules)`, which changes if the class is renamed; `Rules` was its first name.
        names = [field.name for field in fields(self.rules)]
        rules = ", ".join(f"{name}={getattr(self.rules, name)!r}" for name in names)
        content = "\n".join([f"Rules({rules})", *self.ngrams])
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
        """Ids of the letter n-grams of a word, then the id of the word if it has one.

        Ids are in the order of `letter_ngrams`, with repetition. Unseen n-grams get the id of a
        hash bucket, or are dropped without hash buckets.
        """
        ids = []
        for ngram in letter_ngrams(word, self.rules.max_letters, self.rules.letter_ngrams):
            known = self._ids.get(ngram)
            if known is not None:
                ids.append(known)
            elif self.rules.hash_buckets:
                ids.append(1 + len(self.ngrams) + bucket(ngram, self.rules.hash_buckets))
        word_id = self.whole_words.get(whole_word(word, self.rules.max_letters))
        return (*ids,) if word_id is None else (*ids, word_id)

    def unknown_fraction(self, texts: Iterable[str]) -> float:
        """The fraction of the letter n-grams of texts that are not in the vocabulary."""
        ngrams = [
            ngram
            for text in texts
            for word in self.words(text)
            for ngram in letter_ngrams(word, self.rules.max_letters, self.rules.letter_ngrams)
        ]
        return sum(ngram not in self._ids for ngram in ngrams) / max(1, len(ngrams))

    def save(self, path: Path) -> None:
        """Writes one n-gram per line, most frequent first, in UTF-8."""
        with atomic_write(path) as file:
            file.writelines(f"{ngram}\n" for ngram in self.ngrams)

    @classmethod
    def load(cls, path: Path, rules: TextRules) -> Vocabulary:
        """Reads a file written by `save`.

        Raises:
            UserError: the file is missing, or a line is not an n-gram of the rules' kinds.
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
            if not _is_ngram(line, rules):
                examples = ", ".join(_EXAMPLES[kind] for kind in rules.letter_ngrams)
                raise UserError(
                    f"{path}:{number} holds {line[:20]!r}; expected a letter n-gram such as "
                    f"{examples}, or a word such as #cat#, one per line."
                )
        try:
            return cls(lines, rules)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from None

    def __reduce__(self) -> tuple[type, tuple[tuple[str, ...], TextRules]]:
        # Beam pickles a vocabulary without its cache.
        return Vocabulary, (self.ngrams, self.rules)


def most_frequent(counts: Mapping[str, int], sizes: Mapping[str, int], min_count: int) -> list[str]:
    """The most frequent letter n-grams of each kind, the most frequent first.

    Equal counts are in code point order of the characters, after the number of the field.

    Args:
        counts: how often each n-gram occurs.
        sizes: maximum number of n-grams of each kind.
        min_count: rarer n-grams are left out.
    """
    frequent = []
    for ngram, count in counts.items():
        if count >= min_count:
            field, kind, characters = parse_ngram(ngram)
            frequent.append((-count, field + characters, ngram, kind))
    frequent.sort()
    counts_by_kind, result = Counter[str](), []
    for *_, ngram, kind in frequent:
        counts_by_kind[kind] += 1
        if counts_by_kind[kind] <= sizes[kind]:
            result.append(ngram)
    return result


def _is_ngram(line: str, rules: TextRules) -> bool:
    """Whether a line is a whole word or a letter n-gram of the rules' kinds.

    Either may begin with the number of a field.
    """
    field, kind, characters = parse_ngram(line)
    if field not in ("", *"12345"):
        return False
    if kind == WHOLE_WORD:
        bounded = len(characters) > 3 and characters[0] == characters[-1] == BOUNDARY
        return bounded and BOUNDARY not in characters[1:-1]
    if kind not in rules.letter_ngrams:
        return False
    if kind == "pairs":
        return characters != 2 * BOUNDARY
    if kind == "trigrams":
        return characters[1] != BOUNDARY
    return len(characters) == 3 and characters == "".join(sorted(characters)) != 3 * BOUNDARY


_CACHED_WORDS = 1_000_000
_EXAMPLES = {"pairs": "#c", "trigrams": "#ca", "sorted_trigrams": "~#ac"}
