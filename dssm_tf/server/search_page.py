"""The search page: one query, three rankings side by side, and why; at `/` of the REST port."""

from __future__ import annotations

import logging
import threading
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qs, urlencode

from dssm_tf.common.errors import UserError
from dssm_tf.common.page import page
from dssm_tf.retrieval.searcher import SYSTEMS, Found, Hit, Searcher
from dssm_tf.retrieval.title_index import TitleIndex
from dssm_tf.server.corpus_words import ALIKE, CorpusWords, likeness
from dssm_tf.server.models import Model, Version
from dssm_tf.server.rest_api import Answer
from dssm_tf.server.served_model import ServedModel
from dssm_tf.tables.cells import readable
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.normalize import words

_Corpus = Sequence[CorpusTitle]

_LOG = logging.getLogger("dssm_tf.server")

_NAMES = {"bm25": "BM25", "semantic": "Semantic", "hybrid": "Hybrid"}
_ABOUT = {"bm25": "by words", "semantic": "by meaning", "hybrid": "both, fused"}
_RESULTS = 10
_EXAMPLES = 3
_LONGEST = 1000  # letters of a query

_SCRIPT = (files("dssm_tf.server") / "search.js").read_text("utf-8")
_STYLE = (files("dssm_tf.server") / "search.css").read_text("utf-8")
_HASH = b64encode(sha256(f"\n{_SCRIPT}".encode()).digest()).decode()
# What a title or a query might become, it runs nothing and asks nobody but this server.
_POLICY = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'"
)
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class _Asked(NamedTuple):
    """What the address says.

    Args:
        query: as it was typed.
        why: the doc id of the hit to explain, or empty.
        system: in whose ranking.
    """

    query: str
    why: str
    system: str

    def address(self, **change: str) -> str:
        """The address of the same page with something changed."""
        asked = self._replace(**change)
        named = {"q": asked.query, "why": asked.why, "in": asked.system if asked.why else ""}
        return "/?" + urlencode({key: value for key, value in named.items() if value})


class SearchPage:
    """Answers `GET /`.

    Searches by the version of the model that answers; when another one takes over, its vectors are
    made first, and the page goes on with the old ones until they are.

    Args:
        model: whose vectors are searched.
        titles: to search: a corpus, or its index, which must be the first version's; versions with
            other vectors get an index like it, in memory.
    """

    def __init__(self, model: Model, titles: Sequence[CorpusTitle] | TitleIndex) -> None:
        self._model = model
        self._index = titles if isinstance(titles, TitleIndex) else None
        self._corpus = corpus = self._index.corpus if self._index else cast(_Corpus, titles)
        keep = self._index is not None and self._index.settings.keep_accents
        self._words = CorpusWords((one.title for one in corpus), keep)
        self._lock = threading.Lock()  # of the searcher
        self._preparing = threading.Lock()
        self._version: Version | None = None
        self._searcher: Searcher | None = None

    def prepare(self, report: Callable[[str, float], None] = lambda step, share: None) -> None:
        """Makes the vectors of the version that answers now.

        Args:
            report: see `TitleIndex.build`.

        Raises:
            UserError: the model cannot search this corpus, or the index is of another model.
        """
        version = self._model.current
        if version is None:
            raise UserError(f"no version of {self._model.name} answers.")
        ranker = ServedModel(version)
        self._searcher = Searcher(ranker, self._index_of(ranker, report))
        self._version = version

    def _index_of(self, ranker: ServedModel, report: Callable[[str, float], None]) -> TitleIndex:
        if self._index is not None:
            try:
                self._index.check_model(ranker)
            except UserError:
                if self._searcher is None:
                    raise
            else:
                return self._index
        settings = self._index.settings if self._index else None
        return TitleIndex.build(ranker, self._corpus, settings, report)

    def __call__(self, path: str, asked: str) -> Answer | None:
        """The page, or None for another path."""
        if path != "/":
            return None
        self._follow()
        values = parse_qs(asked, errors="replace")
        query, why, system = (values.get(name, [""])[0] for name in ("q", "why", "in"))
        query = readable(query).strip()
        request = _Asked(query, why, system if system in SYSTEMS else SYSTEMS[-1])
        status = 200
        if len(query) > _LONGEST:
            status = 400
            shown = _message(
                f"The query has {len(query):,} letters.", f"Ask with {_LONGEST:,} at most."
            )
        else:
            shown = self._results(request) if query else self._welcome()
        title = f"{query[:60]} - search" if query else "Search"
        html = page(title, _body(self._about(), query, shown), [_SCRIPT], _POLICY)
        content = html.encode("utf-8", "replace")
        return Answer(status, content, "text/html; charset=utf-8", _HEADERS)

    def _follow(self) -> None:
        """Prepares a newer version aside, once."""
        if self._model.current is self._version or not self._preparing.acquire(blocking=False):
            return

        def prepare() -> None:
            try:
                self.prepare()
            except Exception as error:
                _LOG.error("the page goes on with the version before: %s", error)
                self._version = self._model.current
            finally:
                self._preparing.release()

        threading.Thread(target=prepare, daemon=True).start()

    def _about(self) -> str:
        version = self._version
        named = f"{version.model}, version {version.number}" if version else self._model.name
        return f"{len(self._corpus):,} titles, model {named}"

    def _welcome(self) -> str:
        """Nothing is asked yet: titles to begin with."""
        step = max(1, len(self._corpus) // _EXAMPLES)
        titles = [readable(one.title).strip() for one in self._corpus[step // 2 :: step]]
        links = [
            f'<a href="{escape(_Asked(title, "", "").address())}">{escape(title[:60])}</a>'
            for title in dict.fromkeys(titles[:_EXAMPLES])
            if title
        ]
        return (
            '<div class="state"><p>Type a query: three systems rank every title for it.</p>'
            f'<p class="soft">Or begin with a title: {", ".join(links)}</p></div>'
        )

    def _results(self, asked: _Asked) -> str:
        searcher = self._searcher
        if searcher is None:
            return _message("The titles are not indexed yet.", "Try again in a moment.")
        with self._lock:
            found = searcher.search(asked.query, _RESULTS)
            why = self._why(searcher, asked, found) if asked.why else ""
        notes = self._spelling(searcher, asked)
        if not any(found[system].hits for system in SYSTEMS):
            told = dict.fromkeys(found[system].note for system in SYSTEMS[:-1])
            return notes + _message("Nothing found.", " ".join(map(_sentence, told)))
        places = {
            system: {hit.doc_id: rank for rank, hit in enumerate(found[system].hits, start=1)}
            for system in SYSTEMS
        }
        jumps = "".join(f'<a href="#{system}">{_NAMES[system]}</a>' for system in SYSTEMS)
        columns = "".join(_column(asked, system, found, places, why) for system in SYSTEMS)
        return f'{notes}<nav class="jumps">{jumps}</nav><div class="systems">{columns}</div>'

    def _spelling(self, searcher: Searcher, asked: _Asked) -> str:
        """Words of the query that stand in no title, and those that are spelled like them."""
        read = self._words.split(asked.query)
        missing = [word for word in dict.fromkeys(read) if word not in self._words]
        lines, others = [], []
        for word in missing:
            links = []
            for near in self._words.nearest(word):
                query = " ".join(near.word if one == word else one for one in read)
                count = "1 title" if near.titles == 1 else f"{near.titles:,} titles"
                links.append(
                    f'<a href="{escape(asked.address(query=query, why=""))}">{escape(near.word)}'
                    f'</a> <span class="soft">({count})</span>'
                )
            like = f" Did you mean {' or '.join(links)}?" if links else ""
            if like or _known(searcher, word):
                lines.append(f"{_strong([word])} stands in no title.{like}{_known(searcher, word)}")
            else:
                others.append(word)
        if others:
            lines.append(f"{_strong(others)} {'stand' if others[1:] else 'stands'} in no title.")
        listed = "".join(f"<li>{line}</li>" for line in lines)
        kind = "unknown" if len(lines) > bool(others) else "unknown soft"
        return f'<ul class="{kind}">{listed}</ul>' if lines else ""

    def _why(self, searcher: Searcher, asked: _Asked, found: Mapping[str, Found]) -> str:
        """The explanation of one hit; empty where it is none of the hits."""
        from dssm_tf.analysis.answers import explain_answers
        from dssm_tf.analysis.html import explained_html

        hits = {hit.doc_id: hit for hit in found[asked.system].hits}
        if asked.why not in hits:
            return ""
        title = hits[asked.why].title
        ranker: Any = searcher.index.bm25 if asked.system == "bm25" else searcher.ranker
        try:
            return explained_html(explain_answers(ranker, asked.query, title))
        except UserError as error:
            return f'<p class="soft">{escape(str(error))}</p>'


def _body(about: str, query: str, shown: str) -> str:
    return (
        f"<style>\n{_STYLE}</style>\n"
        '<form id="ask" action="/" method="get" role="search">'
        '<label for="q">Search</label>'
        f'<input id="q" name="q" type="search" value="{escape(query)}" maxlength="{_LONGEST}" '
        'autocomplete="off" autocapitalize="off" spellcheck="false" enterkeyhint="search" '
        'placeholder="Search" autofocus><button>Search</button></form>'
        f'<p class="soft about">{escape(about)}</p>'
        f'<div id="results">{shown}</div>'
        '<p id="failed" class="loss" role="status"></p>'
        '<p class="soft keys"><kbd>/</kbd> the box <kbd>&darr;</kbd> <kbd>&uarr;</kbd> hits '
        "<kbd>&larr;</kbd> <kbd>&rarr;</kbd> systems <kbd>Enter</kbd> why</p>"
    )


def _column(
    asked: _Asked,
    system: str,
    found: Mapping[str, Found],
    places: Mapping[str, Mapping[str, int]],
    why: str,
) -> str:
    """One system's ranking."""
    own = found[system]
    hits = []
    for rank, hit in enumerate(own.hits, start=1):
        others = [
            f"{_NAMES[other]} {places[other][hit.doc_id]}"
            for other in SYSTEMS
            if other != system and hit.doc_id in places[other]
        ]
        inside = why if (asked.why, asked.system) == (hit.doc_id, system) else ""
        hits.append(_hit(asked, system, rank, hit, others, inside))
    empty = f'<p class="state soft">{escape(_sentence(own.note))}</p>'
    listed = f"<ol>{''.join(hits)}</ol>" if hits else empty
    return (
        f'<section id="{system}" aria-label="{_NAMES[system]}"><h2>{_NAMES[system]} '
        f'<span class="soft">{_ABOUT[system]}, {own.milliseconds:.1f} ms</span></h2>'
        f"{listed}</section>"
    )


def _hit(asked: _Asked, system: str, rank: int, hit: Hit, others: Sequence[str], why: str) -> str:
    title = readable(hit.title).strip()
    shown = _marked(asked.query, title) or '<span class="soft">(an empty title)</span>'
    address = asked.address(why="" if why else hit.doc_id, system=system)
    about = " &middot; ".join([escape(readable(hit.doc_id)), f"{hit.score:.3f}", *others])
    return (
        f'<li id="{system}-{rank}"><span class="rank">{rank}</span><div class="hit">'
        f'<div class="title">{shown}</div><div class="soft">{about} '
        f'<a class="why" id="{system}-{rank}-why" href="{escape(address)}#{system}-{rank}" '
        f'aria-expanded="{"true" if why else "false"}" '
        f'aria-label="Why {escape(title[:80])}">why</a></div>{why}</div></li>'
    )


def _marked(query: str, title: str) -> str:
    """A title as HTML; words of the query are marked, those spelled like one more faintly."""
    asked = set(words(query))
    parts = []
    for piece in title.split():
        own = words(piece)
        text = escape(piece)
        if asked.intersection(own):
            text = f"<mark>{text}</mark>"
        elif any(likeness(one, other) >= ALIKE for one in asked for other in own):
            text = f'<mark class="near">{text}</mark>'
        parts.append(text)
    return " ".join(parts)


def _known(searcher: Searcher, word: str) -> str:
    """What the model does not read of a word, as HTML; empty where it reads all."""
    vocabulary = searcher.ranker.vocabulary
    whole = len(letter_ngrams(word, vocabulary.limits.max_letters))
    known = len(vocabulary.ngram_ids(word))
    if known == whole:
        return ""
    told = f"{known} of its {whole}" if known else "none of its"
    return f' <span class="soft">The model knows {told} letter trigrams.</span>'


def _strong(texts: Sequence[str]) -> str:
    return ", ".join(f"<strong>{escape(text)}</strong>" for text in texts)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}."


def _message(what: str, mend: str) -> str:
    return (
        f'<div class="state"><p><strong>{escape(what)}</strong></p>'
        f'<p class="soft">{escape(mend)}</p></div>'
    )
