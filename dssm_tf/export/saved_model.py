"""A trained run as a SavedModel that takes raw strings, for TensorFlow Serving."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import tensorflow as tf

from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import newest_version, next_version
from dssm_tf.common.plain_data import read_json
from dssm_tf.data.format import SPEC, VOCABULARY
from dssm_tf.model.prior import TitlePrior, with_column
from dssm_tf.model.run_files import CONFIG, MODEL_CARD, QUERY_IDS, RANKING
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import normalize_vectors
from dssm_tf.model.text_features import TextFeatures, normalize
from dssm_tf.text.vocabulary import Vocabulary

EXTRA = "assets.extra"  # where an export has copies of its run's files
_WARMUP = "tf_serving_warmup_requests"
EPSILON = float(np.finfo(np.float32).eps)
_INPUTS = {
    "encode_query": ("queries",),
    "encode_title": ("titles",),
    "score": ("queries", "titles"),
    "encode_query_with_prior": ("queries",),
    "encode_title_with_prior": ("titles",),
}
Answers = Callable[[Sequence[str]], dict[str, np.ndarray]]
"""Raw texts to what an export answers, by signature."""

# What once broke somebody's model: empty, blank, one letter, unseen, long, odd Unicode.
ADVERSARIAL = (
    "",
    "   ",
    "a",
    "zzyzx qqqq",
    "wizard of oz",
    "The WIZARD-of-Oz (1939)!",
    "x" * 10_000,
    "word " * 500,
    "\u0130stanbul \u039f\u0394\u039f\u03a3 stra\u00dfe",
    "cafe\u0301 caf\u00e9",
    "soft\u00adhyphen zero\u200bwidth",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u6771\u4eac \u30db\u30c6\u30eb",
    "\U0001f355 pizza",
    "nul\x00byte tab\tnew\nline",
    "\ud800 lone surrogate",
    "a wizard\u241fof oz \u241f\u241f1939\u241f",
)


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

    # Autograph would generate further files in the temporary directory, where a kill leaves them.
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="queries")], autograph=False
    )
    def encode_query(self, queries):
        return {"embeddings": self.query_vectors(queries)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="titles")], autograph=False)
    def encode_title(self, titles):
        return {"embeddings": self.title_vectors(titles)}

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="queries")], autograph=False
    )
    def encode_query_with_prior(self, queries):
        vectors = self.query_vectors(queries)
        return {"embeddings": tf.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="titles")], autograph=False)
    def encode_title_with_prior(self, titles):
        column = self.weighted_prior(titles)[:, None]
        return {"embeddings": tf.concat([self.title_vectors(titles), column], axis=1)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, name="queries"),
            tf.TensorSpec([None], tf.string, name="titles"),
        ],
        autograph=False,
    )
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
        signatures = {
            "encode_query": served.encode_query,
            "encode_title": served.encode_title,
            "encode_query_with_prior": served.encode_query_with_prior,
            "encode_title_with_prior": served.encode_title_with_prior,
            "score": served.score,
            "serving_default": served.score,
        }
        tf.saved_model.save(served, str(aside), signatures=signatures)
        _name_by_content(aside)
        extra = aside / EXTRA
        extra.mkdir()
        write_warmup(extra / _WARMUP, base.name)
        for file in (CONFIG, MODEL_CARD, VOCABULARY, SPEC, QUERY_IDS):
            if (run / file).exists():
                shutil.copyfile(run / file, extra / file)
        ranking = json.dumps({"mean_prior": ranker.mean_prior})
        (extra / RANKING).write_text(ranking + "\n", "utf-8")
        verify(served_answers(aside), ranker)
        # The ranker's own path runs the TensorFlow text ops inside the Keras model.
        verify(ranker_answers(ranker), ranker)
        files = sorted(path for path in aside.rglob("*") if path.is_file())
        write_checksums(aside, [path.relative_to(aside).as_posix() for path in files])
    return target


def check_name(name: str | None) -> None:
    """Raises UserError where a model's name is no directory name."""
    if name is not None and (name in ("", ".", "..") or "/" in name or "\\" in name):
        raise UserError(f"--name {name!r} is not one directory name, such as 'lstm'.")


def load_export(directory: Path | str) -> Any:
    """Loads what `export` wrote, once its files have the checksums that they were written with.

    Args:
        directory: of a version; or of a model, whose newest version is taken.

    Returns:
        The SavedModel; its `signatures` are those of `export`.

    Raises:
        UserError: it is no export, or a file of it is missing, damaged or was changed.
    """
    directory = newest_version(Path(directory))
    check_files(directory, None, "Copy the export again, or write it again with `dssm export`.")
    return tf.saved_model.load(str(directory))


def read_mean_prior(version: Path) -> float:
    """The `mean_prior` of the run that a version was made of."""
    ranking = read_json(version / EXTRA / RANKING, "Export the model again.")
    return float(ranking["mean_prior"])


def _name_by_content(directory: Path) -> None:
    """Puts a digest of the SavedModel in place of the random number that TensorFlow names it by.

    The same run is then exported to the same bytes.
    """
    from tensorflow.core.protobuf import fingerprint_pb2

    digest = sha256()
    for path in (directory / "saved_model.pb", *sorted((directory / "variables").iterdir())):
        digest.update(path.read_bytes())
    path = directory / "fingerprint.pb"
    fingerprint = fingerprint_pb2.FingerprintDef.FromString(path.read_bytes())
    fingerprint.uuid = str(UUID(bytes=digest.digest()[:16]))
    path.write_bytes(fingerprint.SerializeToString(deterministic=True))


def tolerance(ranker: SemanticRanker) -> float:
    """How far a unit vector may lie from itself when float32 sums are added in another order.

    Every CPU, thread count, batch and graph has an order of its own. Behind a vector stand up to
    `n = max_words * (max_letters + units)` roundings in a row: of the sum of a word's trigrams
    and of a matrix product, at each word. Each is off by half an epsilon at most, upwards or
    downwards, so `n` of them hardly ever err by more than `4 * sqrt(n)` halves, and two vectors
    by twice that.

    Returns:
        The length of the difference of two unit vectors that is still explained so.

    Reference: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis".
    """
    rules, hashing = ranker.vocabulary.rules, ranker.model.query_tower.hashing
    roundings = rules.max_words * (rules.max_letters + hashing.units)
    return float(4 * np.sqrt(roundings) * EPSILON)


def verify(answers: Answers, ranker: SemanticRanker, basis: np.ndarray | None = None) -> float:
    """Checks that an export answers as the trained model does on texts hashed in Python.

    Args:
        answers: of the export, read back: raw texts to an array for each signature, as `export`
            has them; `score` of each text with itself.
        ranker: the trained model, its weights rounded as the export's are.
        basis: what its vectors are multiplied by before they are brought to length one again.

    Returns:
        The length of the largest difference of two unit vectors.

    Raises:
        UserError: a vector differs by more than `tolerance`, or a score by twice that; the text
            is named.
    """
    known = list(ranker.prior.log_shares)[:32]
    texts = [*ADVERSARIAL, *known, *(f" {title.upper()}!" for title in known)]
    batch = python_text_batch(ranker.vocabulary, texts)
    model, weighted = ranker.model, ranker.weighted_prior(texts)
    sides = [np.asarray(encode(batch)) for encode in (model.encode_query, model.encode_title)]
    if basis is not None:
        sides = [side @ basis for side in sides]
    # Of a vector of which little is left, so little that rounding shows, less is asked.
    left = np.minimum(*(np.linalg.norm(side, axis=1) for side in sides))
    queries, titles = (np.asarray(normalize_vectors(side)) for side in sides)
    of_vector = tolerance(ranker)
    of_score = 2 * of_vector + 4 * EPSILON * float(np.abs(weighted).max())
    expected = {
        "encode_query": (queries, of_vector),
        "encode_title": (titles, of_vector),
        "score": (np.sum(queries * titles, axis=1) + weighted, of_score),
        "encode_query_with_prior": (with_column(queries, 1.0), of_vector),
        "encode_title_with_prior": (with_column(titles, weighted), of_score),
    }
    gaps = {}
    for signature, found in answers(texts).items():
        wanted, allowed = expected[signature]
        gap = np.linalg.norm((found - wanted).reshape(len(texts), -1), axis=1)
        gap *= np.where(left > 0, left, 1.0)
        if not gap.max() <= allowed:
            row = int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))
            raise UserError(
                f"the exported `{signature}` disagrees with the trained model on "
                f"{texts[row][:40]!r} by {gap[row]:.2g} (allowed {allowed:.2g}); nothing was "
                "exported."
            )
        gaps[signature] = float(gap.max())
    return max(gaps["encode_query"], gaps["encode_title"])


def ranker_answers(ranker: Any) -> Answers:
    """What a model in Python answers, for `verify`."""
    return lambda texts: {
        "encode_query": ranker.encode_queries(texts),
        "encode_title": ranker.encode_titles(texts),
        "encode_query_with_prior": ranker.encode_queries(texts, prior=True),
        "encode_title_with_prior": ranker.encode_titles(texts, prior=True),
        "score": np.diagonal(ranker.score_matrix(texts, texts)),
    }


def served_answers(directory: Path) -> Answers:
    """What a SavedModel answers, for `verify`."""
    signatures = tf.saved_model.load(str(directory)).signatures

    def answers(texts: Sequence[str]) -> dict[str, np.ndarray]:
        raw = tf.constant([text.encode("utf-8", "surrogatepass") for text in texts])
        return {
            name: next(iter(signatures[name](**dict.fromkeys(inputs, raw)).values())).numpy()
            for name, inputs in _INPUTS.items()
        }

    return answers


def python_text_batch(vocabulary: Vocabulary, texts: Sequence[str]) -> dict[str, tf.Tensor]:
    """A text batch hashed by the pure-Python rules, as the records of the pipeline are."""
    words = [vocabulary.words(text) for text in texts]
    distinct = {word: i for i, word in enumerate(dict.fromkeys(w for t in words for w in t), 1)}
    ngrams = [vocabulary.ngram_ids(word) for word in distinct]
    table = np.zeros((1 + len(distinct), max([1, *map(len, ngrams)])), np.int32)
    for row, ids in enumerate(ngrams, start=1):
        table[row, : len(ids)] = ids
    tokens = np.zeros((len(texts), max([1, *map(len, words)])), np.int32)
    for row, one in enumerate(words):
        tokens[row, : len(one)] = [distinct[word] for word in one]
    return {"word_ngrams": tf.constant(table), "tokens": tf.constant(tokens)}


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
