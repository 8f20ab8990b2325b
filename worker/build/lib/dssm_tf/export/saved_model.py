"""A trained run as a SavedModel that takes raw strings, for TensorFlow Serving."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import newest_version, next_version
from dssm_tf.common.plain_data import read_json
from dssm_tf.data.format import SPEC, VOCABULARY, Spec, load_vocabulary
from dssm_tf.evaluation.title_cache import TitleCache
from dssm_tf.export.verify import ADVERSARIAL, check_name, verify
from dssm_tf.model.prior import TitlePrior
from dssm_tf.model.run_files import CONFIG, MODEL_CARD, QUERY_IDS, RANKING
from dssm_tf.model.semantic_ranker import SemanticRanker, encode_distinct
from dssm_tf.model.text_features import TextFeatures, normalize
from dssm_tf.runtime.vector_ranker import Side, VectorRanker, Vectors, texts_of

EXTRA = "assets.extra"  # where an export has copies of its run's files
_WARMUP = "tf_serving_warmup_requests"
_RANKING = ("mean_prior", "bm25_weight", "cutoff")  # attributes of a `VectorRanker`
_AGAIN = "Copy the export again, or write it again with `dssm export`."
_INPUTS = {
    "encode_query": ("queries",),
    "encode_title": ("titles",),
    "encode_query_with_prior": ("queries",),
    "encode_title_with_prior": ("titles",),
    "score": ("queries", "titles"),
}


class _Served(tf.Module):
    """The functions behind the signatures, and the variables they read."""

    def __init__(self, ranker: SemanticRanker) -> None:
        super().__init__()
        self._features = TextFeatures(ranker.vocabulary)
        self._model = _Untracked(ranker.model)
        self._prior_weight = ranker.prior_weight
        self._prior = _PriorTable(ranker.prior) if self._prior_weight else None
        self.weights = [weight.value for weight in ranker.model.weights]

    def query_vectors(self, queries: tf.Tensor) -> tf.Tensor:
        return self._model.value.encode_query(self._features(queries))

    def title_vectors(self, titles: tf.Tensor) -> tf.Tensor:
        return self._model.value.encode_title(self._features(titles))

    def weighted_prior(self, titles: tf.Tensor) -> tf.Tensor:
        if self._prior is None:
            return tf.zeros([tf.size(titles)])
        return self._prior_weight * self._prior(titles)

    def encode_query(self, queries):
        return {"embeddings": self.query_vectors(queries)}

    def encode_title(self, titles):
        return {"embeddings": self.title_vectors(titles)}

    def encode_query_with_prior(self, queries):
        vectors = self.query_vectors(queries)
        return {"embeddings": tf.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)}

    def encode_title_with_prior(self, titles):
        column = self.weighted_prior(titles)[:, None]
        return {"embeddings": tf.concat([self.title_vectors(titles), column], axis=1)}

    def score(self, queries, titles):
        sizes = tf.size(queries), tf.size(titles)
        taken = (sizes[0] == sizes[1]) | (sizes[0] == 1)
        found = tf.strings.format("{} queries and {} titles", sizes)
        wanted = "`score` takes as many queries as titles, or one query for all of them; received"
        with tf.control_dependencies([tf.debugging.Assert(taken, [wanted, found])]):
            queries = tf.identity(queries)
        cosines = tf.reduce_sum(self.query_vectors(queries) * self.title_vectors(titles), 1)
        # The shape of the answer follows the titles, with one query as with many.
        return {"scores": cosines + self.weighted_prior(titles)}


class _Untracked:
    """Keeps a Keras model out of the SavedModel's object graph; only its weights belong there."""

    def __init__(self, value) -> None:
        self.value = value


class _PriorTable:
    """`TitlePrior` in core ops: a binary search over fingerprints of normalised titles."""

    def __init__(self, prior: TitlePrior) -> None:
        self._unseen = prior.unseen
        self._rules = prior.rules
        titles = list(prior.log_shares)
        encoded = [title.encode() for title in titles]
        # A longer title is an unseen one, and need not be read to its end.
        self._longest = max(map(len, encoded), default=0)
        keys = _fingerprint(tf.constant(encoded, tf.string)).numpy()
        order = np.argsort(keys)
        if len(np.unique(keys)) != len(keys):
            raise UserError("two titles have one fingerprint; set ranking.prior to 0.")
        # The sentinel keeps the tables non-empty.
        self._keys = np.append(keys[order], np.iinfo(np.int64).max)
        shares = np.array([prior.log_shares[title] for title in titles], np.float32)
        self._shares = np.append(shares[order], prior.unseen).astype(np.float32)

    def __call__(self, titles: tf.Tensor) -> tf.Tensor:
        keys = _fingerprint(normalize(titles, self._rules, self._longest))
        place = tf.searchsorted(tf.constant(self._keys), keys)
        found = tf.gather(tf.constant(self._keys), place) == keys
        return tf.where(found, tf.gather(tf.constant(self._shares), place), self._unseen)


def _fingerprint(texts: tf.Tensor) -> tf.Tensor:
    """Fingerprints of strings, int64: 62 bits, so that none reaches the key that ends the table."""
    whole = tf.bitcast(tf.fingerprint(texts), tf.int64)
    return tf.bitwise.bitwise_and(whole, tf.constant(np.iinfo(np.int64).max - 1, tf.int64))


def export(run: Path | str, out: Path | str, name: str | None = None) -> Path:
    """Writes `out/<name>/<version>/`, verified, with warm-up requests.

    It computes in float32, as all that ranks does, whatever precision it was trained in.

    Signatures: `encode_query` (`queries` string `(n,)` to `embeddings` float32 `(n, d)`),
    `encode_title` (`titles`), `score` (`queries` `(n,)` or `(1,)`, `titles` `(n,)` to `scores`
    float32 `(n,)`), which is also `serving_default`. A server that batches requests wants equal
    lengths: repeat the query there. The inner product of the embeddings is the cosine; that of
    `encode_query_with_prior` and `encode_title_with_prior`, `(n, d + 1)`, is the score.

    Args:
        run: what `dssm train` wrote.
        out: the directory TensorFlow Serving's models lie in.
        name: the model's name; the tower's by default.

    Returns:
        The version's directory; its number is one above the highest there.

    Raises:
        UserError: the run is unusable, or the exported model disagrees with the trained one.
    """
    run = Path(run)
    check_name(name)
    ranker = SemanticRanker.load(run)
    base = Path(out) / (name or ranker.name)
    target = next_version(base)
    with atomic_directory(target) as aside:
        served = _Served(ranker)
        # Autograph would leave files in the temporary directory when it is killed.
        signatures = {
            name: tf.function(
                getattr(served, name),
                input_signature=[tf.TensorSpec([None], tf.string, name=one) for one in inputs],
                autograph=False,
            )
            for name, inputs in _INPUTS.items()
        }
        signatures["serving_default"] = signatures["score"]
        tf.saved_model.save(served, str(aside), signatures=signatures)
        extra = aside / EXTRA
        extra.mkdir()
        write_warmup(extra / _WARMUP, base.name)
        for file in (CONFIG, MODEL_CARD, VOCABULARY, SPEC, QUERY_IDS):
            if (run / file).exists():
                shutil.copyfile(run / file, extra / file)
        ranking = {name: getattr(ranker, name) for name in _RANKING}
        (extra / RANKING).write_text(json.dumps(ranking) + "\n", "utf-8")
        _seal(aside)
        verify(ExportedRanker(aside), ranker, list(ranker.prior.log_shares))
    return target


def _seal(directory: Path) -> None:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    write_checksums(directory, [path.relative_to(directory).as_posix() for path in files])


class ExportedRanker(VectorRanker):
    """Ranks by the signatures of an export: what a server would answer, without a server.

    Args:
        directory: of a version, or of a model, whose newest version is taken.

    Raises:
        UserError: it is no export, or a file of it is missing, damaged or was changed.
    """

    def __init__(self, directory: Path | str) -> None:
        version = newest_version(Path(directory))
        self.name = version.parent.name
        check_files(version, None, _AGAIN)
        extra = version / EXTRA
        ranking = read_json(extra / RANKING, _AGAIN)
        for name in _RANKING:
            setattr(self, name, ranking[name])
        self.vocabulary = load_vocabulary(extra, Spec.load(extra))
        self._model = tf.saved_model.load(str(version))  # its variables live as long as it does
        self._titles: TitleCache[tuple[Vectors, Vectors, NDArray[np.intp]]] = TitleCache()

    def encode_queries(self, queries: Iterable[str], prior: bool = False) -> Vectors:
        """See `VectorRanker`."""
        return self._ask("encode_query" + "_with_prior" * prior, texts_of("queries", queries))

    def encode_titles(self, titles: Iterable[str], prior: bool = False) -> Vectors:
        """See `VectorRanker`."""
        return self._ask("encode_title" + "_with_prior" * prior, texts_of("titles", titles))

    def score(self, query: str, titles: Iterable[str]) -> Vectors:
        """See `VectorRanker`."""
        (query,) = texts_of("query", [query])
        distinct, shared = self.vocabulary.rules.distinct(texts_of("titles", titles))
        raw = tf.constant([query.encode("utf-8", "surrogatepass")])
        return self._ask("score", distinct, queries=raw)[shared, 0]

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        return self._ask(f"encode_{side}", texts)

    def _weighted(self, titles: Sequence[str]) -> Vectors:
        return self._ask("encode_title_with_prior", titles)[:, -1]

    def _prepared(self, titles: Sequence[str]) -> tuple[Vectors, Vectors, NDArray[np.intp]]:
        return self._titles.get(titles, super()._prepared)

    def _ask(self, signature: str, texts: Sequence[str], **others: tf.Tensor) -> Vectors:
        """What a signature makes of its last input, one row a text."""
        call, name = self._model.signatures[signature], _INPUTS[signature][-1]
        ((output, spec),) = call.structured_outputs.items()
        width = 1 if signature == "score" else int(spec.shape[1])
        return encode_distinct(
            lambda raw: tf.reshape(call(**others, **{name: raw})[output], (-1, width)), texts, width
        )


def write_warmup(path: Path, model: str, texts: Sequence[str] = ADVERSARIAL[4:6]) -> None:
    """Writes requests TensorFlow Serving replays at load, so that no user waits for the first.

    Args:
        path: `assets.extra/tf_serving_warmup_requests`.
        model: the served model's name.
        texts: what the requests hold.
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    inputs = _INPUTS | {"serving_default": _INPUTS["score"]}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, names in inputs.items():
            for size in (1, 8):
                request = predict_pb2.PredictRequest()
                request.model_spec.name = model
                request.model_spec.signature_name = signature
                values = [text.encode() for text in (list(texts) * size)[:size]]
                for name in names:
                    request.inputs[name].CopyFrom(tf.make_tensor_proto(values, tf.string))
                log = prediction_log_pb2.PredictionLog(
                    predict_log=prediction_log_pb2.PredictLog(request=request)
                )
                writer.write(log.SerializeToString(deterministic=True))
