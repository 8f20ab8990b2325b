"""The search page: one query, three rankings side by side, and why; at `/` of the REST port."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
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
from dssm_tf.server.models import Model
from dssm_tf.server.rest_api import Answer
from dssm_tf.server.searched_model import Report, SearchedModel
from dssm_tf.tables.cells import readable
from dssm_tf.tables.judgments import CorpusTitle
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED

_Corpus = Sequence[CorpusTitle]

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
        model: the name of the model to search by, or empty for the first.
    """

    query: str
    why: str = ""
    system: str = ""
    model: str = ""

    def address(self, **change: str) -> str:
        """The address of the same page with something changed."""
        asked = self._replace(**change)
        system = asked.system if asked.why else ""
        named = {"q": asked.query, "model": asked.model, "why": asked.why, "in": system}
        return "/?" + urlencode({key: value for key, value in named.items() if value})


class SearchPage:
    """Answers `GET /`.

    Args:
        models: by whose vectors titles can be searched; the first one where nothing else is asked.
        titles: to search: a corpus, or its index, which must be the first model's.
    """

    def __init__(self, models: Sequence[Model], titles: Sequence[CorpusTitle] | TitleIndex) -> None:
        index = titles if isinstance(titles, TitleIndex) else None
        self._corpus = corpus = index.corpus if index else cast(_Corpus, titles)
        self._words = CorpusWords(one.title for one in corpus)
        self._first = models[0].name
        self.searched = {
            model.name: SearchedModel(model, corpus, index if model is models[0] else None)
            for model in models
        }

    def prepare(self, report: Report = lambda step, share: None) -> None:
        """Makes the vectors of all models; see `SearchedModel.prepare`."""
        for one in self.searched.values():
            one.prepare(report)

    def __call__(self, path: str, asked: str) -> Answer | None:
        """The page, or None for another path."""
        if path != "/":
            return None
        values = parse_qs(asked, errors="replace")
        query, why, system, model = (
            values.get(name, [""])[0] for name in ("q", "why", "in", "model")
        )
        query = readable(query).strip()
        # The address of the first model's page is that of a server with one model.
        model = model if model != self._first else ""
        request = _Asked(query, why, system if system in SYSTEMS else SYSTEMS[-1], model)
        status = 200
        if (model or self._first) not in self.searched:
            status, request = 404, request._replace(model="")
            there = f"There is {', '.join(self.searched)}."
            shown = _message(f"No model {model[:60]!r} is served.", there)
        elif len(query) > _LONGEST:
            status = 400
            shown = _message(
                f"The query has {len(query):,} letters.", f"Ask with {_LONGEST:,} at most."
            )
        else:
            shown = self._results(request) if query else self._welcome(request)
        title = f"{query[:60]} - search" if query else "Search"
        html = page(title, _body(request, self._about(request) + shown), [_SCRIPT], _POLICY)
        content = html.encode("utf-8", "replace")
        return Answer(status, content, "text/html; charset=utf-8", _HEADERS)

    def _about(self, asked: _Asked) -> str:
        """What is searched, and by which of the models."""
        named = []
        for name, one in self.searched.items():
            shown = escape(f"{name}, version {one.version.number}" if one.version else name)
            chosen = name == (asked.model or self._first)
            address = asked.address(model="" if name == self._first else name, why="")
            named.append(shown if chosen else f'<a href="{escape(address)}">{shown}</a>')
        several = "s" if named[1:] else ""
        models = " &middot; ".join(named)
        return f'<p class="soft about">{len(self._corpus):,} titles, model{several} {models}</p>'

    def _welcome(self, asked: _Asked) -> str:
        """Nothing is asked yet: titles to begin with."""
        step = max(1, len(self._corpus) // _EXAMPLES)
        titles = [readable(one.title).strip() for one in self._corpus[step // 2 :: step]]
        links = [
            f'<a href="{escape(asked.address(query=title, why=""))}">{escape(title[:60])}</a>'
            for title in dict.fromkeys(titles[:_EXAMPLES])
            if title
        ]
        return (
            '<div class="state"><p>Type a query: three systems rank every title for it.</p>'
            f'<p class="soft">Or begin with a title: {", ".join(links)}</p></div>'
        )

    def _results(self, asked: _Asked) -> str:
        answer = self.searched[asked.model or self._first].search(asked.query, _RESULTS)
        if answer is None:
            return _message("The titles are not indexed yet.", "Try again in a moment.")
        searcher, found = answer
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
        from dssm_tf.analysis.explanation import explain
        from dssm_tf.analysis.show import explained_html

        hits = {hit.doc_id: hit for hit in found[asked.system].hits}
        if asked.why not in hits:
            return ""
        title = hits[asked.why].title
        ranker: Any = searcher.index.bm25 if asked.system == "bm25" else searcher.ranker
        try:
            return explained_html(explain(ranker, asked.query, title))
        except UserError as error:
            return f'<p class="soft">{escape(str(error))}</p>'


def _body(asked: _Asked, shown: str) -> str:
    return (
        f"<style>\n{_STYLE}</style>\n"
        '<form id="ask" action="/" method="get" role="search">'
        '<label for="q">Search</label>'
        f'<input id="q" name="q" type="search" value="{escape(asked.query)}" '
        f'maxlength="{_LONGEST}" autocomplete="off" autocapitalize="off" spellcheck="false" '
        'enterkeyhint="search" placeholder="Search" autofocus>'
        f'<input id="model" name="model" type="hidden" value="{escape(asked.model)}">'
        "<button>Search</button></form>"
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
    asked = set(FOLDED.words(query))
    parts = []
    for piece in title.split():
        own = FOLDED.words(piece)
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
    whole = len(letter_ngrams(word, vocabulary.rules.max_letters))
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
