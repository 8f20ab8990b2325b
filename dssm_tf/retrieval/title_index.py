"""A corpus ready to be searched: titles, vectors and words, in memory or in a directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.arrays import map_array
from dssm_tf.common.checksums import CHECKSUMS, QUICK, check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory, atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.retrieval import word_index
from dssm_tf.retrieval.approximate import ApproximateIndex
from dssm_tf.retrieval.hybrid import BM25, PRIOR, ChosenHybrid
from dssm_tf.retrieval.index import ExactIndex, FlatIndex, VectorIndex, Vectors
from dssm_tf.retrieval.recall import TARGET, Measured, choose_index, probe_queries
from dssm_tf.retrieval.title_table import TitleTable, write_titles
from dssm_tf.retrieval.word_index import WordIndex
from dssm_tf.tables.judgments import CorpusTitle

if TYPE_CHECKING:
    from dssm_tf.baselines.bm25 import BM25 as BM25Ranker

FORMAT = 1
ABOUT, TITLES, VECTORS = "index.json", "titles.arrow", "vectors.npy"
NEAREST, HYBRID, PRIORS = "nearest.faiss", "hybrid.json", "priors.npy"

_OWN = (
    ABOUT, TITLES, VECTORS, NEAREST, HYBRID, PRIORS, *word_index.FILES, QUICK, CHECKSUMS,
)  # fmt: skip
_SAVED = ("kind", "prior", "target", "queries")  # of the settings
_CHUNK = 1 << 14  # titles encoded between two reports
_SAMPLE = 16  # titles encoded to see whether a model made the vectors
_DISTANCE = 0.05  # of two vectors of a title, which rounding does not explain
_AGAIN = "Make it again: dssm index --model RUN --corpus CORPUS --out INDEX"

Report = Callable[[str, float], None]


class Model(Protocol):
    """What makes the vectors, such as a `SemanticRanker`."""

    def encode_queries(self, queries: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of queries."""
        ...

    def encode_titles(self, titles: Sequence[str], prior: bool = False) -> Vectors:
        """Vectors of titles."""
        ...


@dataclass(frozen=True)
class Settings:
    """How an index is made.

    Attributes:
        kind: of the vector index, one of `recall.KINDS`.
        prior: whether vectors hold the prior, so that inner products are the model's scores.
        target: least recall@10 of an approximate index.
        queries: real ones to measure it on; made of the titles' words if there are none.
        hybrid: what BM25 and the model are joined by.
    """

    kind: str = "exact"
    prior: bool = True
    target: float = TARGET
    queries: tuple[str, ...] = ()
    hybrid: ChosenHybrid | None = None


class TitleIndex:
    """The titles of a corpus with what finds them by meaning and by words.

    Args:
        corpus: the titles; equal ones tie.
        vectors: of the titles, `(titles, dimension)`, one more with the prior.
        nearest: finds the best of them.
        measured: what it finds.
        words: finds titles by their words.
        settings: how it was made.
        priors: the titles' log-priors, where the hybrid joins them, `(titles,)`.
    """

    def __init__(
        self,
        corpus: Sequence[CorpusTitle],
        vectors: Vectors,
        nearest: VectorIndex,
        measured: Measured,
        words: WordIndex,
        settings: Settings,
        priors: Vectors | None = None,
    ) -> None:
        self.corpus = corpus
        self.vectors = vectors
        self.nearest = nearest
        self.measured = measured
        self.words = words
        self.settings = settings
        self.priors = priors

    @classmethod
    def build(
        cls,
        model: Model,
        corpus: Sequence[CorpusTitle],
        settings: Settings | None = None,
        report: Report = lambda step, share: None,
        vectors: Vectors | None = None,
    ) -> TitleIndex:
        """Makes an index in memory.

        Args:
            model: that the queries will be encoded with.
            corpus: titles.
            settings: see `Settings`.
            report: called with what is being done and its share so far, from 0 to 1.
            vectors: of the titles, where they are known.

        Raises:
            UserError: no title holds a word, faiss is needed and not installed, or a vector is
                not finite.
        """
        settings = settings or Settings()
        titles = [entry.title for entry in corpus]
        report("counting words", 0.0)
        words = WordIndex.of(titles, _parameters(settings))
        if vectors is None:
            vectors = _encode(model, titles, settings.prior, report)
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise UserError(f"The vector of title {corpus[row].doc_id!r} is not finite.")
        priors = None
        if settings.hybrid and PRIOR in settings.hybrid.members:
            if not hasattr(model, "prior"):
                raise UserError(
                    "The hybrid joins the titles' prior, which a served model does not tell by "
                    "itself; make the index with its run: dssm index --hybrid FILE"
                )
            priors = model.prior(titles)

        def queries() -> Vectors:
            texts = list(settings.queries) or probe_queries(titles)
            return model.encode_queries(texts, settings.prior)

        nearest, measured = choose_index(
            vectors, queries, settings.kind, settings.target, lambda step: report(step, 1.0)
        )
        return cls(corpus, vectors, nearest, measured, words, settings, priors)

    def changed(
        self,
        model: Model,
        add: Sequence[CorpusTitle] = (),
        remove: Collection[str] = (),
        report: Report = lambda step, share: None,
    ) -> TitleIndex:
        """The index with other titles; only those that are added are encoded.

        Words are weighed, and an approximate index is built and measured, anew.

        Args:
            model: that made this one.
            add: titles whose ids it does not have.
            remove: ids.
            report: see `build`.

        Raises:
            UserError: an id to remove is not there, one to add is, or no title would be left.
        """
        gone = self.rows(remove)
        keep = np.setdiff1d(np.arange(len(self.corpus)), gone)
        kept = [self.corpus[row] for row in keep]
        known = {entry.doc_id for entry in kept}
        if twice := next((one.doc_id for one in add if one.doc_id in known), None):
            raise UserError(
                f"--add: id {twice!r} is in the index already; --remove it in the same call to "
                "replace its title."
            )
        corpus = [*kept, *add]
        if not corpus:
            raise UserError("--remove would leave no title; remove the directory instead.")
        vectors = np.asarray(self.vectors[keep])
        if add:
            texts = [entry.title for entry in add]
            vectors = np.concatenate([vectors, _encode(model, texts, self.settings.prior, report)])
        return self.build(model, corpus, self.settings, report, vectors)

    def rows(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """The rows of titles, increasing, to search among them alone.

        Raises:
            UserError: an id is not there.
        """
        ids = list(ids)
        found = [self._row_of.get(one, -1) for one in ids]
        if -1 in found:
            raise UserError(f"id {ids[found.index(-1)]!r:.80} is not in the index.")
        return np.unique(np.array(found, np.int64))

    @cached_property
    def _row_of(self) -> dict[str, int]:
        ids = self.corpus.ids() if isinstance(self.corpus, TitleTable) else None
        return {one: row for row, one in enumerate(ids or (entry[0] for entry in self.corpus))}

    @cached_property
    def bm25(self) -> BM25Ranker:
        """BM25 with the index' parameters as a ranker of any texts, for explanations."""
        from dssm_tf.baselines.bm25 import BM25 as Ranker

        titles = dict.fromkeys(entry.title for entry in self.corpus)
        return Ranker(**_parameters(self.settings)).fit([], titles)

    def check_model(self, model: Model) -> None:
        """Compares rows with what a model makes of their titles now.

        Raises:
            UserError: another model made them.
        """
        check_vectors(model, self.corpus, self.vectors)

    def save(self, directory: Path, model_fingerprint: str, *, replace: bool = False) -> None:
        """Writes the index, whole or not at all.

        Args:
            directory: to write.
            model_fingerprint: of the model, see `common.checksums.fingerprint`.
            replace: whether it may take the place of an index.

        Raises:
            UserError: the directory holds something that may not be replaced.
        """
        with atomic_directory(directory, own=_OWN if replace else ()) as aside:
            write_titles(aside / TITLES, self.corpus)
            np.save(aside / VECTORS, np.ascontiguousarray(self.vectors, "<f4"))
            self.words.save(aside)
            if isinstance(self.nearest, ApproximateIndex):
                self.nearest.save(aside / NEAREST)
            if self.settings.hybrid:
                self.settings.hybrid.save(aside / HYBRID)
            if self.priors is not None:
                np.save(aside / PRIORS, self.priors)
            about = {
                "format": FORMAT,
                "model_sha256": model_fingerprint,
                "titles": len(self.corpus),
                "dimension": self.vectors.shape[1],
                "hybrid": self.settings.hybrid is not None,
                "settings": {name: getattr(self.settings, name) for name in _SAVED},
                "measured": asdict(self.measured),
            }
            with atomic_write(aside / ABOUT) as file:
                json.dump(about, file, indent=2)
            names = [one.name for one in aside.iterdir()]
            for manifest in (QUICK, CHECKSUMS):
                write_checksums(aside, names, manifest)

    @classmethod
    def open(cls, directory: Path | str, model_fingerprint: str | None = None) -> TitleIndex:
        """Maps an index that `save` wrote into memory, once its checksums are compared.

        Args:
            directory: the index.
            model_fingerprint: of the model that will encode the queries; None where it has none
                to compare, as an export: call `check_model` then.

        Raises:
            UserError: the directory is no index, is damaged, or of another model.
        """
        directory = Path(directory)
        if not (directory / ABOUT).exists():
            raise UserError(
                f"{directory} holds no {ABOUT}; give a directory that `dssm index` wrote."
            )
        # A million vectors are 1.2 GB: two seconds by SHA-256, which older indexes have alone.
        check_files(directory, None, _AGAIN, QUICK if (directory / QUICK).exists() else CHECKSUMS)
        about = read_json(directory / ABOUT, _AGAIN)
        try:
            shape = (about["titles"], about["dimension"])
            measured = Measured(**_tuples(about["measured"]))
            hybrid = ChosenHybrid.load(directory / HYBRID) if about["hybrid"] else None
            settings = Settings(**_tuples(about["settings"]), hybrid=hybrid)
            fingerprint = about["model_sha256"]
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']!r}; this version reads {FORMAT}")
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{directory / ABOUT} cannot be used: {error}. {_AGAIN}") from None
        if model_fingerprint not in (None, fingerprint):
            raise UserError(
                f"{directory} was made with another model, or with this one before it was trained "
                f"again: the fingerprints differ. Give that model. {_AGAIN}"
            )
        corpus = TitleTable.open(directory / TITLES, _AGAIN)
        vectors = map_array(directory / VECTORS, _AGAIN)
        if vectors.shape != shape or vectors.dtype != np.float32 or len(corpus) != shape[0]:
            raise UserError(
                f"{directory} holds {len(corpus)} titles and vectors {vectors.shape}; its {ABOUT} "
                f"says {shape}. {_AGAIN}"
            )
        nearest: VectorIndex
        if measured.setting:
            path = directory / NEAREST
            nearest = ApproximateIndex.load(path, vectors, measured.kind, measured.setting[1])
        else:
            nearest = (FlatIndex if measured.kind == "flat" else ExactIndex)(vectors)
        words = WordIndex.open(directory, len(corpus), _AGAIN)
        path = directory / PRIORS
        priors = map_array(path, _AGAIN) if path.exists() else None
        return cls(corpus, vectors, nearest, measured, words, settings, priors)


def check_vectors(model: Model, corpus: Sequence[CorpusTitle], vectors: Vectors) -> None:
    """Compares some vectors with what a model makes of their titles now.

    Raises:
        UserError: they differ by more than rounding: another model made them.
    """
    sample = np.unique(np.linspace(0, len(corpus) - 1, _SAMPLE).astype(np.int64))
    titles = [corpus[row] for row in sample]
    plain = model.encode_titles([], False).shape[1]
    if vectors.shape[1] not in (plain, plain + 1):
        raise UserError(
            f"The vectors have length {vectors.shape[1]}; this model's have {plain}, or "
            f"{plain + 1} with the prior. {_AGAIN}"
        )
    fresh = model.encode_titles([one.title for one in titles], vectors.shape[1] > plain)
    distance = np.linalg.norm(vectors[sample] - fresh, axis=1)
    # Written so that NaN, of a damaged file, is refused too.
    for entry, far in zip(titles, ~(distance < _DISTANCE), strict=True):
        if far:
            raise UserError(
                f"The vector of title {entry.doc_id!r:.80} is not what this model makes of it: "
                f"another model, or another corpus. {_AGAIN}"
            )


def _parameters(settings: Settings) -> Mapping[str, Any]:
    """BM25's."""
    return settings.hybrid.of(BM25) if settings.hybrid else {}


def _tuples(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in raw.items()}


def _encode(model: Model, titles: Sequence[str], prior: bool, report: Report) -> Vectors:
    """The vectors of titles; equal titles share one, so they tie."""
    distinct = list(dict.fromkeys(titles))
    parts = []
    for start in range(0, len(distinct), _CHUNK):
        report("encoding titles", start / len(distinct))
        parts.append(model.encode_titles(distinct[start : start + _CHUNK], prior))
    vectors = np.concatenate(parts)
    if len(distinct) == len(titles):
        return vectors
    place = {title: row for row, title in enumerate(distinct)}
    return vectors[[place[title] for title in titles]]
