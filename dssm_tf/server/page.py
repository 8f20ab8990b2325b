"""The search page: one query, three rankings side by side, and why; at `/` of the REST port."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dssm_tf.common.errors import UserError
from dssm_tf.common.page import page as whole_page
from dssm_tf.retrieval.searcher import SYSTEMS, Hit, Searcher
from dssm_tf.retrieval.title_index import TitleIndex
from dssm_tf.server.service import Service
from dssm_tf.server.versions import Model, Version
from dssm_tf.tables.cells import readable
from dssm_tf.tables.judgments import CorpusTitle

_NAMES = {"bm25": "BM25", "semantic": "Semantic", "hybrid": "Hybrid"}
_ABOUT = {"bm25": "by words", "semantic": "by meaning", "hybrid": "both, fused"}
_RESULTS = 10
_EXAMPLES = 3
_LONGEST = 1000  # letters of a query
_LONGEST_WHY = 64  # words of a query and a title together that are explained

_SCRIPT = (files("dssm_tf.server") / "search.js").read_text("utf-8")
_STYLE = (files("dssm_tf.server") / "search.css").read_text("utf-8")
_HASH = b64encode(sha256(f"\n{_SCRIPT}".encode()).digest()).decode()
# What a title or a query might become, it runs nothing and asks nobody but this server.
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def _address(query: str, why: str = "", system: str = "") -> str:
    """The address of a query's page, with one hit explained if `why` is its id."""
    asked = {"q": query, "why": why, "in": system if why else ""}
    return "/?" + urlencode({name: value for name, value in asked.items() if value})


_TEMPLATES = Environment(loader=PackageLoader("dssm_tf.server", ""), autoescape=True)
_TEMPLATES.filters["address"] = _address


class Searched(NamedTuple):
    """A version with what its vectors find; the page shows and uses the two together.

    Args:
        version: whose vectors are searched.
        searcher: by these.
    """

    version: Version
    searcher: Searcher


class SearchPage:
    """Answers `GET /`.

    Args:
        model: by whose vectors titles are searched.
        titles: to search: a corpus, or its index, which must be the model's.
    """

    def __init__(self, model: Model, titles: Sequence[CorpusTitle] | TitleIndex) -> None:
        self._model = model
        self._index = titles if isinstance(titles, TitleIndex) else None
        self._corpus = self._index.corpus if self._index else cast(Sequence[CorpusTitle], titles)
        self.searched: Searched | None = None

    def follow(self, report: Any = lambda step, share: None) -> None:
        """Makes the vectors of the version that answers now; until then the one before is searched.

        Args:
            report: see `TitleIndex.build`.

        Raises:
            UserError: the model cannot search this corpus, or the index is of another model.
        """
        version = self._model.current
        if version is None or (self.searched and self.searched.version is version):
            return
        ranker: Any = version.ranker
        index = self._index
        if index is not None:
            try:
                index.check_model(ranker)
            except UserError:
                if self.searched is None:
                    raise
                index = None
        if index is None:
            settings = self._index.settings if self._index else None
            index = TitleIndex.build(ranker, self._corpus, settings, report)
        self.searched = Searched(version, Searcher(ranker, index))

    def routes(self, service: Service) -> list[Route]:
        """The page's route; a search is work within the limits of the service."""

        async def get(request: Request) -> Response:
            asked = [request.query_params.get(name, "") for name in ("q", "why", "in")]
            status, html = await service.handle(
                "page", service.compute(lambda: self.render(*asked))
            )
            return HTMLResponse(html.encode("utf-8", "replace"), status, _HEADERS)

        return [Route("/", get)]

    def render(self, query: str = "", why: str = "", system: str = "") -> tuple[int, str]:
        """HTTP's status, and the page.

        Args:
            query: as it was typed.
            why: the doc id of the hit to explain, or empty.
            system: in whose ranking.
        """
        searched = self.searched
        assert searched is not None  # noqa: S101 - the server starts when it is
        query, status = readable(query).strip(), 200
        shown: dict[str, Any] = {"query": query}
        if len(query) > _LONGEST:
            status = 400
            shown = {
                "message": f"The query has {len(query):,} letters.",
                "hint": f"Ask with {_LONGEST:,} at most.",
            }
        elif query:
            shown |= self._results(searched, query, why, system if system in SYSTEMS else "hybrid")
        else:
            step = max(1, len(self._corpus) // _EXAMPLES)
            titles = [readable(one.title).strip() for one in self._corpus[step // 2 :: step]]
            shown["examples"] = [one for one in dict.fromkeys(titles[:_EXAMPLES]) if one]
        body = _TEMPLATES.get_template("page.html").render(
            shown, style=_STYLE, longest=_LONGEST, titles=len(self._corpus),
            model=self._model.name, version=searched.version.number,
        )  # fmt: skip
        title = f"{query[:60]} - search" if query else "Search"
        return status, whole_page(title, body, [_SCRIPT], _POLICY)

    def _results(self, searched: Searched, query: str, why: str, system: str) -> dict[str, Any]:
        found = searched.searcher.search(query, _RESULTS)
        if not any(found[one].hits for one in SYSTEMS):
            notes = dict.fromkeys(_sentence(found[one].note) for one in SYSTEMS[:-1])
            return {"message": "Nothing found.", "hint": " ".join(notes)}
        ranks = {
            one: {hit.doc_id: rank for rank, hit in enumerate(found[one].hits, start=1)}
            for one in SYSTEMS
        }
        words = searched.version.ranker.vocabulary.rules.words
        marked, systems = set(words(query)), []
        for one in SYSTEMS:
            hits = []
            for hit in found[one].hits:
                opened = (why, system) == (hit.doc_id, one)
                title = readable(hit.title).strip()
                hits.append({
                    "title": title,
                    "pieces": [(text, marked & set(words(text))) for text in title.split()],
                    "about": _about(one, hit, ranks),
                    "why": _why(searched, query, hit, one) if opened else "",
                    "why_link": "" if opened else hit.doc_id,
                })  # fmt: skip
            systems.append({
                "id": one, "name": _NAMES[one], "about": _ABOUT[one], "hits": hits,
                "milliseconds": found[one].milliseconds, "note": _sentence(found[one].note),
            })  # fmt: skip
        return {"systems": systems}


def _about(system: str, hit: Hit, ranks: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A hit's id, its score, and its ranks by the other systems."""
    others = [
        f"{_NAMES[other]} {ranks[other][hit.doc_id]}"
        for other in SYSTEMS
        if other != system and hit.doc_id in ranks[other]
    ]
    return [readable(hit.doc_id), f"{hit.score:.3f}", *others]


def _why(searched: Searched, query: str, hit: Hit, system: str) -> Markup:
    """The explanation of a hit, as HTML."""
    from dssm_tf.analysis.explanation import explain
    from dssm_tf.analysis.show import explained_html

    if len(query.split()) + len(hit.title.split()) > _LONGEST_WHY:
        return Markup('<p class="soft">Texts of so many words are not explained here.</p>')
    ranker: Any = searched.searcher.index.bm25 if system == "bm25" else searched.version.ranker
    try:
        return Markup(explained_html(explain(ranker, query, hit.title)))
    except UserError as error:
        return Markup('<p class="soft">{}</p>').format(str(error))


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."
