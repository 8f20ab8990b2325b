"""Searches an index of OpenSearch or Elasticsearch over HTTP."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, MaxRetryError, SSLError

from dssm_tf.common.errors import UserError

USER, PASSWORD, API_KEY = "DSSM_ENGINE_USER", "DSSM_ENGINE_PASSWORD", "DSSM_ENGINE_API_KEY"
"""Environment variables with credentials. Flags would show them to all users of the machine."""

Json = dict[str, Any]
EngineHit = tuple[str, float | None]
"""The id of a title, and its score; None if the search sorts by something else."""

_BUSY_STATUSES = (429, 502, 503, 504)  # the node is busy or restarts
_FIRST_PAUSE = 0.5  # seconds before the second retry; each further pause is twice as long
_HTTP_OK = 200
_MAX_REASON = 300  # characters of a message of the node in an error


class SearchEngine:
    """An index that is searched with `_msearch`.

    A request is repeated if the node is busy or the connection breaks. The first connection is not
    repeated, so that a wrong address fails at once.

    Args:
        url: address of a node, such as `https://search.example.org:9200`; it may have a path.
        index: name of the index, or an alias.
        id_field: field of documents with the id of the title; empty for the document's `_id`.
        timeout: seconds to wait for a connection, and for each response.
        retries: number of repetitions of a request.
        ca_file: file with the certificates to trust; None: those of the system.

    Raises:
        UserError: an argument or an environment variable is not usable.
    """

    def __init__(
        self,
        url: str,
        index: str,
        *,
        id_field: str = "",
        timeout: float = 30.0,
        retries: int = 4,
        ca_file: Path | None = None,
    ) -> None:
        self.url, self.index, self._id_field = _checked_url(url), index, id_field
        self._retries, self._timeout, self._has_answered = retries, timeout, False
        self._credentials = _credentials()
        if ca_file is not None and not ca_file.is_file():
            raise UserError(f"--ca-file {ca_file}: there is no such file.")
        try:
            self._pool = urllib3.PoolManager(ca_certs=None if ca_file is None else str(ca_file))
        except OSError as error:
            raise UserError(f"--ca-file {ca_file} has no certificates: {error}.") from None

    def search(self, bodies: Sequence[Json]) -> list[list[EngineHit]]:
        """Sends searches in one request.

        Args:
            bodies: bodies of `_search` requests.

        Returns:
            For each body, the hits in the order of the engine. Later hits with the same id are left
            out.

        Raises:
            UserError: the node does not answer, refuses a request, or returns something other than
                complete results.
        """
        lines = [text for body in bodies for text in ("{}", json.dumps(body))]
        path = f"/{quote(self.index, safe=',*')}/_msearch"
        for attempt in range(self._retries + 1):
            results = self._responses(self._post(path, "\n".join([*lines, ""])), len(bodies))
            statuses = [result.get("status") for result in results if "error" in result]
            if not statuses or any(status not in _BUSY_STATUSES for status in statuses):
                break
            if attempt < self._retries:
                time.sleep(_FIRST_PAUSE * 2**attempt)
        return [self._hits(result) for result in results]

    def _post(self, path: str, body: str) -> Any:
        """Sends a request and returns the JSON of the response."""
        retry = urllib3.Retry(
            total=self._retries,
            connect=self._retries if self._has_answered else 0,
            backoff_factor=_FIRST_PAUSE,
            status_forcelist=_BUSY_STATUSES,
            allowed_methods=None,  # a search changes nothing, so it may be repeated
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        headers = {"Content-Type": "application/x-ndjson", "Accept": "application/json"}
        try:
            response = self._pool.request(
                "POST",
                self.url + path,
                body=body.encode(),
                headers=headers | self._credentials,
                timeout=self._timeout,
                retries=retry,
                redirect=False,
            )
        except LocationParseError:
            raise UserError(_wrong_url_message(self.url)) from None
        except HTTPError as error:
            raise UserError(self._no_answer_message(error)) from None
        self._has_answered = True
        if response.status != _HTTP_OK:
            location = response.headers.get("Location", "")
            raise UserError(self._refusal_message(response.status, _json(response.data), location))
        answer = _json(response.data)
        if answer is None:
            raise UserError(f"{self.url} answers without JSON; is it OpenSearch or Elasticsearch?")
        return answer

    def _responses(self, answer: Any, count: int) -> list[Json]:
        """The results in the answer to `count` searches."""
        results = answer.get("responses") if isinstance(answer, Mapping) else None
        if not (
            isinstance(results, list)
            and len(results) == count
            and all(isinstance(result, dict) for result in results)
        ):
            raise UserError(
                f"{self.url} answers without the results of {count} searches; is it OpenSearch "
                f"or Elasticsearch? The answer begins with {json.dumps(answer):.80}."
            )
        return results

    def _hits(self, result: Json) -> list[EngineHit]:
        """The hits of one search."""
        if "error" in result:
            raise UserError(self._refusal_message(int(result.get("status", 0)), result))
        hits = result.get("hits")
        hits = hits.get("hits") if isinstance(hits, dict) else None
        if not isinstance(hits, list):
            raise UserError(
                f"{self.url} answers a search without hits: the result has {sorted(result)}; "
                "expected hits.hits. Does the template, or a proxy, remove them?"
            )
        shards = result.get("_shards", {})
        if result.get("timed_out") or shards.get("failed"):
            problem = "the search timed out" if result.get("timed_out") else "shards failed"
            raise UserError(
                f"{self.url}: a ranking is incomplete, because {problem}; run the same command "
                "again to continue, or raise the timeout of the template."
            )
        scores: dict[str, float | None] = {}
        for hit in hits:
            scores.setdefault(self._id(hit), hit.get("_score"))
        return [*scores.items()]

    def _id(self, hit: Json) -> str:
        value: Any = hit.get("_id") if not self._id_field else hit.get("_source", {})
        for name in self._id_field.split(".") if self._id_field else ():
            value = value.get(name) if isinstance(value, dict) else None
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UserError(
                f"document {hit.get('_id')!r} of {self.index} has no id in the field "
                f"{self._id_field or '_id'!r}; name a field of text or whole numbers: --id-field."
            )
        text = str(value)
        if text.split() != [text]:
            raise UserError(
                f"the id {text!r} is empty or has white space, which separates the columns of "
                "TREC runs; name another field: --id-field."
            )
        return text

    def _no_answer_message(self, error: HTTPError) -> str:
        cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
        if isinstance(cause, SSLError):
            return (
                f"{self.url} has a certificate that is not trusted: {cause}. Give the file of its "
                "authority: --ca-file."
            )
        text = " ".join(str(cause).split()).split(">: ")[-1].split("): ")[-1]
        retries_text = f" after {self._retries} repetitions" if self._has_answered else ""
        return (
            f"{self.url} does not answer{retries_text}: {text.rstrip('.')}. Is the address "
            "right, and does the node run? Received rankings are kept: run the same "
            "command again to continue."
        )

    def _refusal_message(self, status: int, answer: Any, location: str = "") -> str:
        """The message about a response with an error."""
        reason = _reason(answer)
        reason_text = f": {reason}" if reason else ""
        if status == 401:
            hint = (
                f"check {USER} and {PASSWORD}, or {API_KEY}"
                if self._credentials
                else f"set the environment variables {USER} and {PASSWORD}, or {API_KEY}"
            )
            return f"{self.url} does not accept the credentials (401){reason_text}; {hint}."
        if status == 403:
            return f"{self.url} does not allow searches of {self.index} (403){reason_text}."
        if status == 404 and "index" in reason:
            return f"{self.url} has no index {self.index!r} (404){reason_text}."
        if location:
            return f"{self.url} redirects to {location} ({status}); give that address."
        if status == 400:
            return f"{self.url} refuses the query of the template (400){reason_text}."
        if status in _BUSY_STATUSES:
            return (
                f"{self.url} is busy ({status}) after {self._retries} repetitions{reason_text}; "
                "run the same command again to continue, or give a smaller --batch."
            )
        return (
            f"{self.url} answers with status {status}{reason_text}; is it OpenSearch or "
            "Elasticsearch?"
        )


def _checked_url(url: str) -> str:
    """The address without a slash at its end.

    Raises:
        UserError: it is not an address, or it has a password.
    """
    try:
        parsed = urllib3.util.parse_url(url)
    except LocationParseError:
        raise UserError(_wrong_url_message(url)) from None
    if parsed.auth:
        raise UserError(
            f"--engine has a password; set {USER} and {PASSWORD} instead, which other users of "
            "the machine do not see."
        )
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query:
        raise UserError(_wrong_url_message(url))
    return url.rstrip("/")


def _wrong_url_message(url: str) -> str:
    return f"--engine {url!r}: expected an address such as https://localhost:9200."


def _credentials() -> dict[str, str]:
    """The header with the credentials of the environment; empty without them."""
    user, password, key = (os.environ.get(name, "") for name in (USER, PASSWORD, API_KEY))
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if bool(user) != bool(password):
        raise UserError(f"expected both {USER} and {PASSWORD}; one of them is not set.")
    return urllib3.make_headers(basic_auth=f"{user}:{password}") if user else {}


def _json(data: bytes) -> Any:
    """The content of a response; None if it is not JSON."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def _reason(answer: Any) -> str:
    """The message of the node about an error, in one line; empty if there is none."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if isinstance(error, Mapping):
        causes = error.get("root_cause")
        cause = causes[0] if isinstance(causes, list) and causes else error
        error = cause.get("reason") or cause.get("type") if isinstance(cause, Mapping) else cause
    text = " ".join(str(error or "").split())
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]} ..."
