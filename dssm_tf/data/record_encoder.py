"""`ClickExample.serialize` for many records: the same message, several times faster.

A title is in many records, once clicked and many times as a negative, and a word is in many
titles. The protobuf encoding of a list is the concatenation of its parts, so each word and each
text is hashed and encoded once and its bytes are joined. The features follow each other in the
order of their names, whatever the protobuf library does. A property test keeps the messages
equal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from dssm_tf.data.schema import ClickExample
from dssm_tf.text.fingerprint import fingerprint64
from dssm_tf.text.normalize import words as split_words
from dssm_tf.text.vocabulary import Vocabulary

# Protobuf tags: field number << 3 | 2, "length-delimited".
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = _FIELD_1, _FIELD_2, _FIELD_3
_FEATURES = (
    (b"clicked_ids", _INT64_LIST, True),
    (b"clicks", _FLOAT_LIST, True),
    (b"query", _BYTES_LIST, False),
    (b"query_id", _INT64_LIST, True),
    (b"query_ngrams", _INT64_LIST, True),
    (b"query_word_ngrams", _INT64_LIST, True),
    (b"query_words", _INT64_LIST, True),
    (b"title_clicks", _INT64_LIST, True),
    (b"title_ids", _INT64_LIST, True),
    (b"title_lengths", _INT64_LIST, True),
    (b"title_ngrams", _INT64_LIST, True),
    (b"title_queries", _INT64_LIST, True),
    (b"title_word_ngrams", _INT64_LIST, True),
    (b"title_words", _INT64_LIST, True),
    (b"titles", _BYTES_LIST, False),
)


class _Word(NamedTuple):
    """A word's parts of the lists, encoded."""

    fingerprint: bytes
    ngram_count: bytes
    ngrams: bytes


class _Text(NamedTuple):
    """A text's parts of the lists, encoded."""

    value: bytes
    text_id: bytes
    length: bytes
    words: bytes
    word_ngrams: bytes
    ngrams: bytes


class RecordEncoder:
    """Encodes `ClickExample`s with one vocabulary, remembering texts and words.

    Args:
        vocabulary: hashes the texts.
        cached_texts: texts remembered at most; a word takes about 100 bytes of memory and a
            title of six words about 600.
    """

    def __init__(self, vocabulary: Vocabulary, cached_texts: int = 100_000) -> None:
        self.vocabulary = vocabulary
        self._cached_texts = cached_texts
        self._texts: dict[str, _Text] = {}
        self._heads: list[dict[int, bytes]] = [{} for _ in _FEATURES]  # by length of the values
        self._word = lru_cache(maxsize=4 * cached_texts)(self._encode_word)

    def encode(self, example: ClickExample) -> bytes:
        """The record as `tf.train.Example` bytes."""
        titles = [(one.text, one.clicks, one.queries) for one in example.titles]
        return self.encode_parts(example.query, titles, example.clicks, example.clicked_ids)

    def encode_parts(
        self,
        query_text: str,
        titles: Sequence[tuple[str, int, int]],
        clicks: float,
        clicked_ids: Iterable[int],
    ) -> bytes:
        """The same from plain values: a title is (text, clicks, queries)."""
        known = self._texts.get  # a plain dictionary: this is the inner loop of preprocess
        query = known(query_text) or self._encode_text(query_text)
        texts = [known(text) or self._encode_text(text) for text, _, _ in titles]
        values = (
            b"".join(map(_title_id, clicked_ids)),
            struct.pack("<f", clicks),
            query.value,
            query.text_id,
            query.ngrams,
            query.word_ngrams,
            query.words,
            b"".join([_small(number) for _, number, _ in titles]),
            b"".join([one.text_id for one in texts]),
            b"".join([one.length for one in texts]),
            b"".join([one.ngrams for one in texts]),
            b"".join([_small(number) for _, _, number in titles]),
            b"".join([one.word_ngrams for one in texts]),
            b"".join([one.words for one in texts]),
            b"".join([one.value for one in texts]),
        )
        parts: list[bytes] = []
        for feature, heads, value in zip(_FEATURES, self._heads, values, strict=True):
            length = len(value)
            head = heads.get(length)
            if head is None:
                head = heads[length] = _head(*feature, length)
            parts += head, value
        return _delimited(_FIELD_1, b"".join(parts))

    def _encode_text(self, text: str) -> _Text:
        all_words = split_words(text)
        limits = self.vocabulary.limits
        words = [self._word(word[: limits.max_letters]) for word in all_words[: limits.max_words]]
        if len(self._texts) >= self._cached_texts:
            self._texts.clear()
        encoded = self._texts[text] = _Text(
            value=_delimited(_FIELD_1, text.encode("utf-8", "replace")),
            text_id=_varint(fingerprint64(" ".join(all_words))),
            length=_varint(len(words)),
            words=b"".join([word.fingerprint for word in words]),
            word_ngrams=b"".join([word.ngram_count for word in words]),
            ngrams=b"".join([word.ngrams for word in words]),
        )
        return encoded

    def _encode_word(self, word: str) -> _Word:
        ids = self.vocabulary.ngram_ids(word)
        return _Word(_varint(fingerprint64(word)), _varint(len(ids)), _varints(ids))


def _varint(number: int) -> bytes:
    """A 64-bit integer in protobuf's base 128, least significant group first."""
    number &= 0xFFFF_FFFF_FFFF_FFFF
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_small = lru_cache(maxsize=1 << 14)(_varint)
_title_id = lru_cache(maxsize=1 << 17)(_varint)  # the ids of a title come up with each click


def _varints(numbers: Iterable[int]) -> bytes:
    return b"".join(map(_small, numbers))


def _delimited(tag: bytes, value: bytes) -> bytes:
    return b"%b%b%b" % (tag, _small(len(value)), value)


def _head(name: bytes, kind: bytes, packed: bool, length: int) -> bytes:
    """All that comes before a feature's values: its name, the kind of list, and the lengths.

    Args:
        name: of the feature.
        kind: the tag of its kind of list.
        packed: whether the values stand in one field.
        length: bytes of the values.
    """
    values = b"\0" * length
    listed = _delimited(_FIELD_1, values) if packed and length else values
    value = _delimited(_FIELD_2, _delimited(kind, listed))
    entry = _delimited(_FIELD_1, _delimited(_FIELD_1, name) + value)
    return entry[: len(entry) - length]
