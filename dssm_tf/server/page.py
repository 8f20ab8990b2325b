"""The search page at `/` of the REST port: rankings of a query, with explanations.

The page shows the ranking of the model; that of BM25 is added on request. The server renders the
first view; `search.js` renders later ones, with the same elements, from the JSON of `/v1/search`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dssm_tf.common.errors import UserError
from dssm_tf.reports.page import document
from dssm_tf.retrieval.hits import SYSTEMS, SearchResult
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import AnyIndex
from dssm_tf.server.explaining import explain_title
from dssm_tf.server.limits import NOT_FOUND, Refusal
from dssm_tf.server.scheduler import Blocks
from dssm_tf.server.search_schema import MAX_QUERY_LENGTH
from dssm_tf.server.service import Service
from dssm_tf.tables.cells import one_line

_RESULTS = 10  # titles per ranking

_SCRIPT = (files("dssm_tf.server") / "search.js").read_text("utf-8")
_STYLE = Markup((files("dssm_tf.server") / "search.css").read_text("utf-8"))
_HASH = b64encode(sha256(f"\n{_SCRIPT}".encode()).digest()).decode()
# Even if a title or query were inserted as HTML, no other script could run, and only this server
# could be contacted.
_CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


_TEMPLATES = Environment(loader=PackageLoader("dssm_tf.server", ""), autoescape=True)
_TEMPLATES.filters["one_line"] = lambda text: one_line(text).strip()
_TEMPLATES.filters["short"] = lambda similarity: f"{similarity:.2f}".removeprefix("0")
_TEMPLATES.filters["merged"] = lambda first, second: {
    name: value for name, value in {**first, **second}.items() if value or name == "why"
}


def page_route(service: Service) -> Route:
    """The route `GET /`. Searches are subject to the limits of the service."""

    async def get(request: Request) -> Response:
        snapshot = service.snapshot
        arguments = [request.query_params.get(name, "") for name in ("q", "why", "in", "bm25")]

        searches_without_good_match: list[bool] = []

        def blocks() -> Blocks[str]:
            yield from ()  # makes this a generator: a page is one block
            if snapshot.index is None:
                raise Refusal(NOT_FOUND, "no index is served; start the server with --index.")
            return render(snapshot.index[0], *arguments, report=searches_without_good_match.append)

        page = await service.handle("page", lambda: service.compute("page", 0, blocks))
        service.metrics.count_search(any(searches_without_good_match))
        return HTMLResponse(page.encode("utf-8", "replace"), headers=_HEADERS)

    return Route("/", get)


def render(
    index: AnyIndex,
    query: str = "",
    why: str = "",
    system: str = "",
    bm25: str = "",
    *,
    report: Callable[[bool], None] = lambda no_good_match: None,
) -> str:
    """Renders the page as HTML.

    Args:
        index: the index to search.
        query: the text that the user typed; only its first 1,000 characters are used.
        why: the doc id of the hit to explain; empty for none.
        system: the ranking of the hit to explain.
        bm25: not empty to add the ranking of BM25.
        report: called with true if the search has no good match, else false; not called without
            a query.
    """
    query = one_line(query).strip()[:MAX_QUERY_LENGTH]
    result = index.search(query, _RESULTS) if query else SearchResult({}, "")
    if query:
        report(bool(result.note))
    rankings = dict(result.rankings)
    if not bm25:
        rankings.pop("bm25", None)
    elif query and isinstance(index, MaxSimIndex):
        rankings["bm25"] = index.lexical_ranking.search(query, _RESULTS)
    body = _TEMPLATES.get_template("page.html").render(
        query=query, result=result, rankings=rankings, hits=any(rankings.values()), names=SYSTEMS,
        split=index.model.vocabulary.words, opened=(why, system or next(iter(rankings), "")),
        explain=lambda title, name: _why(index, query, title, name), style=_STYLE,
        max_length=MAX_QUERY_LENGTH, titles=len(index), model=index.model.name,
        bm25="1" if bm25 else "", examples=index.example_queries,
    )  # fmt: skip
    title = f"{query[:60]} - search" if query else "Search"
    return document(title, body, [_SCRIPT], _CONTENT_SECURITY_POLICY)


def _why(index: AnyIndex, query: str, title: str, system: str) -> Markup:
    """The explanation of a hit, as HTML."""
    try:
        explanation = explain_title(index, system, query, title)
        summary = f"{explanation.score_breakdown()}."
        lines = [summary, *explanation.sentences(), *explanation.notes, explanation.method]
        items = Markup("").join(Markup("<li>{}</li>").format(line) for line in lines)
        return Markup("<ul>{}</ul>").format(items)
    except UserError as error:
        return Markup('<p class="soft">{}</p>').format(str(error))
