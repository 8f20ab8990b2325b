"""A client of a search engine export, written from its specification.md alone.

It reads the files and imports nothing of the package, as a client in another language would.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

Json = dict[str, Any]
HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7a3]+")


class Client:
    """Computes words, queries and documents from the files of an export."""

    def __init__(self, directory: Path) -> None:
        self.manifest = json.loads((directory / "manifest.json").read_bytes())
        compact = json.loads((directory / "model" / "compact.json").read_bytes())
        self.title_rules = json.loads((directory / "title_rules.json").read_bytes())
        self.rules, self.threshold = compact["rules"], compact["score"]["threshold"]
        self.text_factor = compact["score"]["text_cosine"]
        self.table = {row[0]: row for row in _table(directory / "expansions.tsv.gz")}
        self.catalog = list(self.table)[: self.manifest["catalog_words"]]
        self.pairs = {p: (float(a), float(b)) for p, a, b in _table(directory / "pairs.tsv.gz")}
        ngrams = (directory / "model" / "vocabulary.txt").read_text("utf-8").split("\n")
        self.ids = {ngram: number for number, ngram in enumerate(ngrams, start=1) if ngram}
        with zipfile.ZipFile(directory / "model" / "weights.npz") as archive:
            self.arrays = {
                name: np.load(BytesIO(archive.read(name))) for name in archive.namelist()
            }
        self.kernel, self.importance = self.arrays["kernel.npy"], self.arrays["importance.npy"]
        frequencies = json.loads((directory / "model" / "document_frequencies.json").read_bytes())
        self.titles, self.title_counts = frequencies["titles"], frequencies["words"]
        self.read_characters(directory / "characters.tsv")
        self.vectors = np.array([self.vector(word) for word in self.catalog])

    # ------------------------------------------------------------------------------------ words

    def read_characters(self, path: Path) -> None:
        """Reads what happens to each character, and to which script it belongs."""
        self.mapping: dict[int, str] = {}
        self.voiced: dict[str, str] = {}
        self.script_of: dict[str, str] = {}
        self.marks: set[str] = set()
        for line in path.read_text("utf-8").splitlines()[1:]:
            first, last, step, rule, becomes = line.split("\t")
            for code in range(int(first, 16), int(last, 16) + 1, int(step)):
                if rule == "accent" and not self.rules["keep_accents"]:
                    self.mapping[code] = becomes
                elif rule in ("deleted", "separator"):
                    self.mapping[code] = " " if rule == "separator" else ""
                elif rule == "lower":
                    lower = code + int(becomes)
                    self.mapping[code] = self.mapping.get(lower, chr(lower))
                elif rule == "width":
                    self.mapping[code] = chr(code + int(becomes))
                elif rule in ("voiced", "semivoiced"):
                    mark = "\u3099" if rule == "voiced" else "\u309a"
                    self.voiced[chr(code) + mark] = chr(code + int(becomes))
                elif rule in ("letter", "mark"):
                    self.script_of[chr(code)] = becomes
                    if rule == "mark":
                        self.marks.add(chr(code))

    def all_words(self, text: str) -> list[str]:
        text = "".join(self.mapping.get(ord(character), character) for character in text)
        for pair, character in self.voiced.items():
            text = text.replace(pair, character)
        text = HANGUL.sub(lambda run: normalize("NFC", run[0]), text)
        words = " ".join(_unspaced(text, self.script_of, self.marks)).split()
        return [word[: self.rules["max_letters"]] for word in words[: self.rules["max_words"]]]

    def words(self, text: str) -> list[str]:
        return list(dict.fromkeys(self.all_words(text)))

    def pairs_of(self, text: str) -> list[str]:
        pairs = dict.fromkeys(map(" ".join, pairwise(self.all_words(text))))
        return [pair for pair in pairs if pair in self.pairs]

    # ---------------------------------------------------------------------------- similar words

    def ids_of(self, word: str) -> list[int]:
        bounded = f"#{word}#"
        ngrams: list[str] = []
        for kind in self.rules["letter_ngrams"]:
            length = 2 if kind == "pairs" else 3
            runs = [bounded[i : i + length] for i in range(len(bounded) - length + 1)]
            if kind == "sorted_trigrams":
                runs = ["~" + "".join(sorted(run)) for run in runs]
            ngrams += runs
        if len(word) > 1:
            ngrams.append(bounded)
        return [self.ids[ngram] for ngram in ngrams if ngram in self.ids]

    def vector(self, word: str) -> Any:
        return _unit(self.kernel[self.ids_of(word)].astype(float).sum(axis=0))

    def weights_by_letters(self, word: str) -> list[float]:
        ids = self.ids_of(word)
        means = self.importance[ids].astype(float).mean(axis=0) if ids else [0.0, 0.0]
        return [math.log1p(math.exp(math.log(2 * self.titles) / 5 + mean)) for mean in means]

    def weights(self, word: str) -> list[float]:
        if word in self.table:
            return [*map(float, self.table[word][1:3])]
        return self.weights_by_letters(word)

    def similar(self, word: str) -> dict[str, float]:
        if word in self.table:
            parts = self.table[word][3].split(" ") if self.table[word][3] else []
            return dict(zip(parts[::2], map(float, parts[1::2]), strict=True))
        if not self.ids_of(word):
            return {}
        cosines = self.vectors @ self.vector(word)
        similarities = np.maximum(0, cosines - self.threshold) / (1 - self.threshold)
        most = self.manifest["similar_words"] or len(self.catalog)
        rows = np.argsort(-similarities, kind="stable")[:most]
        similar = {self.catalog[row]: similarities[row] for row in rows if similarities[row] > 0}
        return {word: 1.0} | similar

    # ------------------------------------------------------------------- queries and documents

    def query(self, text: str, prior: bool, max_terms: int) -> Json:
        placed = self.title_rules.get(" ".join(self.all_words(text)))
        if placed is None:
            return self.query_without_rules(text, prior, max_terms)
        pinned, blocked = placed["pinned"], placed["blocked"]
        terms = max(0, max_terms - len(pinned) - (1 if blocked else 0))
        should = [self.query_without_rules(text, prior, terms)]
        for rank, name in enumerate(pinned):
            clause = {"filter": {"ids": {"values": [name]}}, "_name": f"pinned {rank + 1}"}
            should.append({"constant_score": clause | {"boost": 1000 * (len(pinned) - rank)}})
        exclusion = {"must_not": [{"ids": {"values": blocked}}]} if blocked else {}
        return {"bool": {"should": should, "minimum_should_match": 1} | exclusion}

    def query_without_rules(self, text: str, prior: bool, max_terms: int) -> Json:
        manifest, words, pairs = self.manifest, self.words(text), self.pairs_of(text)
        entries = [(word, v, x) for word in words for v, x in self.similar(word).items()]
        entries += [("", pair, 1.0) for pair in pairs]
        if len(entries) > max_terms // 2:
            entries = sorted(entries, key=lambda entry: -entry[2])[: max_terms // 2]
        kept = {entry[:2]: entry[2] for entry in entries}
        total = sum(self.weights(word)[0] for word in words)
        total += sum(self.pairs[pair][0] for pair in pairs)
        k0, k1 = manifest["query_side"], manifest["title_side"]
        should: list[Json] = []
        best: dict[str, float] = defaultdict(float)
        for word in words:
            queries = []
            for v in self.similar(word):
                if (word, v) in kept:
                    x = kept[word, v]
                    queries += _term(v, k0 * self.weights(word)[0] * x / total)
                    best[v] = max(best[v], x)
            if queries:
                should.append({"dis_max": {"queries": queries}})
        pairs = [pair for pair in pairs if ("", pair) in kept]
        title_side: list[Json] = []
        for v, x in best.items():
            title_side += _term(v, self.weights(v)[1] * x)
        for pair in pairs:
            should += _term(pair, k0 * self.pairs[pair][0] / total)
            title_side += _term(pair, self.pairs[pair][1])
        if title_side and k1:
            norm = {"field": "dssm.norm", "factor": k1, "missing": 0}
            should.append(_with_factor(_any_of(title_side), norm, "multiply"))
        if not should:
            return {"match_none": {}}
        query = _any_of(should)
        if prior and manifest["prior_weight"]:
            query = _with_factor(query, {"field": "dssm.prior", "missing": 0}, "sum")
        return query

    def document(self, title: str) -> Json:
        """The fields of a title without its prior."""
        words, pairs = self.words(title), self.pairs_of(title)
        total = sum(self.weights(word)[1] for word in words)
        total += sum(self.pairs[pair][1] for pair in pairs)
        norm = 1 / total if total else 0.0
        return {"words": words + pairs, "norm": norm, "version": self.manifest["version"]}

    # ----------------------------------------------------------------------------- text vectors

    def cosine_part(self, query: str, words: list[str]) -> float:
        """The part of the score of a document that its text vector adds.

        Args:
            query: the user's query.
            words: the field `dssm.words` of the document.
        """
        title = [word for word in words if " " not in word]
        product = self.text_vector(self.words(query), 0) @ self.text_vector(title, 1)
        return float(self.text_factor * product)

    def text_vector(self, words: list[str], side: int) -> Any:
        kernel, importance = self.arrays["text_kernel.npy"], self.arrays["text_importance.npy"]
        total = np.zeros(kernel.shape[1])
        for word in words:
            if ids := self.ids_of(word):
                idf = math.log(self.titles / max(self.title_counts.get(word, 0), 0.5))
                mean = importance[ids, side].astype(float).mean()
                vector = _unit(kernel[ids].astype(float).sum(axis=0))
                total += math.log1p(math.exp(idf / 5 + mean)) * vector
        return _unit(total)


def _unit(vector: Any) -> Any:
    length = math.sqrt(vector @ vector)
    return vector / length if length else vector


def _term(term: str, boost: float) -> list[Json]:
    rounded = float(f"{boost:.7g}")
    clause = {"constant_score": {"filter": {"term": {"dssm.words": term}}, "boost": rounded}}
    return [clause] if rounded >= 1e-30 else []


def _any_of(clauses: list[Json]) -> Json:
    return {"bool": {"minimum_should_match": 1, "should": clauses}}


def _with_factor(query: Json, factor: Json, mode: str) -> Json:
    return {"function_score": {"query": query, "field_value_factor": factor, "boost_mode": mode}}


def _table(path: Path) -> list[list[str]]:
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    return [line.split("\t") for line in lines[1:] if line]


def _unspaced(text: str, script_of: dict[str, str], marks: set[str]) -> Iterable[str]:
    """The runs of each script without spaces as their pairs, and the texts between them."""
    for script, run in groupby(text, lambda character: script_of.get(character, "")):
        part = "".join(run)
        yield from _pairs(part, marks) if script else [part]


def _pairs(run: str, marks: set[str]) -> list[str]:
    characters: list[str] = []
    for character in run:
        if character in marks and characters:
            characters[-1] += character
        else:
            characters.append(character)
    return [a + b for a, b in pairwise(characters)] or characters
