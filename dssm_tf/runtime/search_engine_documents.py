"""Adds a model's fields to the documents of a search engine, which are lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NoReturn

from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import repeated_key
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_hits import FIELDS, Json
from dssm_tf.text.fields import join_fields

_ACTIONS = ("index", "create", "update", "delete")
_EXPECTED = "expected text, or a list of texts"


class DocumentWriter:
    """Computes the fields of documents.

    Args:
        client: a client of the export.
        title_fields: the fields of a document that make its title; a dot separates the names of
            nested objects, such as `product.name`.
    """

    def __init__(self, client: SearchEngineClient, title_fields: Sequence[str]) -> None:
        self._client = client
        self._title_fields = title_fields
        self._ranker = client.ranker
        self._weights: dict[str, float] = {}

    def fields(self, title: str) -> Json:
        """The model's fields of a title, for the field `dssm` of its document.

        Args:
            title: raw text; several fields are separated by U+241F.

        Returns:
            `words`, the distinct words and known pairs; `norm`, 1 divided by the sum of their
            weights, or 0 without words; `prior`, see `Manifest.prior_offset`; `version`.
        """
        client = self._client
        words, pairs = client.words(title), client.pairs_of(title)
        total = sum(map(self._weight, words)) + sum(client.pairs[pair][1] for pair in pairs)
        prior = float(self._ranker.weighted_prior([title])[0]) - client.manifest.prior_offset
        return {
            "words": [*words, *pairs],
            "norm": 1 / total if total else 0.0,
            "prior": max(0.0, prior),
            "version": client.manifest.version,
        }

    def with_fields(self, document: Mapping[str, Any]) -> Json:
        """A copy of a document with the model's fields; earlier ones are replaced.

        Raises:
            ValueError: the document has no title, or one that is not text.
        """
        texts = [_text(document, field) for field in self._title_fields]
        if all(text is None for text in texts):
            raise ValueError(f"the document has no {' or '.join(self._title_fields)}")
        return {**document, FIELDS: self.fields(join_fields([text or "" for text in texts]))}

    def documents(self, lines: Iterable[bytes], source: str, id_field: str = "") -> Iterator[bytes]:
        """Adds fields to documents.

        Args:
            lines: a JSON object per line; blank lines are skipped.
            source: the name of the input, for error messages.
            id_field: if given, a line that indexes the document under this field's value is written
                before each document, in the format of bulk requests.

        Raises:
            UserError: a line is not a JSON object, repeats a key, has a number that is not finite
                as a double, or has no title or id; the message has the number of the line.
        """
        for line_number, document in _objects(lines, source):
            with _ErrorsOfLine(source, line_number):
                if id_field:
                    yield _line({"index": {"_id": _id(document, id_field)}})
                yield _line(self.with_fields(document))

    def bulk(self, lines: Iterable[bytes], source: str) -> Iterator[bytes]:
        """Adds fields to the documents of a bulk request.

        `index` and `create` need a title. `update` with a partial document needs one only if it
        changes one of the title's fields; then it needs all of them.

        Args:
            lines: lines of a bulk request.
            source: the name of the input, for error messages.

        Raises:
            UserError: a line is not an action or a document, repeats a key, has a number that is
                not finite as a double, or has no title; the message has the number of the line.
        """
        objects = _objects(lines, source)
        for line_number, action in objects:
            with _ErrorsOfLine(source, line_number):
                name = _action(action)
            yield _line(action)
            if name == "delete":
                continue
            line_number, document = next(objects, (line_number, None))
            with _ErrorsOfLine(source, line_number):
                if document is None:
                    raise ValueError(f"the document of the last {name} is missing")
                yield _line(
                    self._updated(document) if name == "update" else self.with_fields(document)
                )

    def _updated(self, body: Json) -> Json:
        """The body of an `update` with the model's fields, if it changes the title."""
        changes = [name for name in ("doc", "upsert") if isinstance(body.get(name), dict)]
        result = dict(body)
        for name in changes:
            present = [_text(body[name], field) is not None for field in self._title_fields]
            if all(present):
                result[name] = self.with_fields(body[name])
            elif any(present):
                raise ValueError(
                    f"the update has only some of the fields {', '.join(self._title_fields)}; the "
                    "title is made of all of them"
                )
        return result

    def _weight(self, word: str) -> float:
        """The weight of a title's word, cached."""
        weight = self._weights.get(word)
        if weight is None:
            weight = self._weights[word] = self._client.title_weight(word)
        return weight


class _ErrorsOfLine:
    """Turns a ValueError of a block into a UserError that names the line."""

    def __init__(self, source: str, line_number: int) -> None:
        self._location = f"{source}:{line_number}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ValueError):
            raise UserError(f"{self._location}: {error}; nothing was written.") from None


def _objects(lines: Iterable[bytes], source: str) -> Iterator[tuple[int, Json]]:
    """The line numbers and JSON objects of lines that are not blank."""
    for line_number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        with _ErrorsOfLine(source, line_number):
            try:
                content = json.loads(
                    line,
                    parse_constant=_refuse_constant,
                    parse_float=_finite,
                    object_pairs_hook=_object_of_pairs,
                )
            except RecursionError:
                raise ValueError("the JSON is nested too deeply") from None
            except ValueError as error:
                raise ValueError(f"expected a JSON object ({error})") from None
            if not isinstance(content, dict):
                raise ValueError(f"expected a JSON object, received {content!r:.40}")
        yield line_number, content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    """A number with a point or an exponent."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text:.40} is too large; expected a number below 1.8e308")
    return number


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> Json:
    """The object of a list of keys and values."""
    if (repeated := repeated_key(pairs)) is not None:
        raise ValueError(f"the key {repeated!r:.60} is repeated; give it once")
    return dict(pairs)


def _line(content: Json) -> bytes:
    """A JSON object as a line."""
    try:
        return json.dumps(content, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can express
        return json.dumps(content).encode() + b"\n"


def _action(content: Json) -> str:
    """The name of the action of a bulk request."""
    name = next(iter(content), "")
    if len(content) != 1 or name not in _ACTIONS or not isinstance(content[name], dict):
        raise ValueError(
            f"expected a bulk action, one of {', '.join(_ACTIONS)}, received {content!r:.60}"
        )
    return name


def _value(document: Mapping[str, Any], field: str) -> Any:
    """The value of a field, which may be nested; None if it is missing."""
    if field in document:
        return document[field]
    name, dot, rest = field.partition(".")
    inner = document.get(name)
    return _value(inner, rest) if dot and isinstance(inner, Mapping) else None


def _text(document: Mapping[str, Any], field: str) -> str | None:
    """The text of a field; a list of texts is joined. None if it is missing or null."""
    value = _value(document, field)
    texts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{field} is {value!r:.40}; {_EXPECTED}")
    return None if value is None else " ".join(texts)


def _id(document: Mapping[str, Any], field: str) -> str:
    """The id of a document as text."""
    value = _value(document, field)
    if type(value) not in (str, int) or value == "":
        raise ValueError(f"{field} is {value!r:.40}; expected an id, which is text or an integer")
    return str(value)
