"""Export of a trained run as a SavedModel that takes raw strings, for TensorFlow Serving."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from dssm_tf.character_ops import normalize
from dssm_tf.common.checksums import check_files, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.common.forks import ForkCheck
from dssm_tf.common.json_files import read_json
from dssm_tf.config import load_config
from dssm_tf.data.format import SPEC, VOCABULARY, Spec, load_vocabulary
from dssm_tf.export.saved_model_check import check_saved_model
from dssm_tf.export.signatures import INPUTS
from dssm_tf.export.target import new_version
from dssm_tf.export.verify import ADVERSARIAL, verify
from dssm_tf.id_table import IdTable, hash_texts
from dssm_tf.model.load_run import RunRanker, load_run
from dssm_tf.model.maxsim_run import MaxSimRun
from dssm_tf.model.pair_scores import pair_score_function
from dssm_tf.model.run_files import (
    CONFIG,
    EXTRA,
    LARGEST_WEIGHT,
    MODEL_CARD,
    QUERY_IDS,
    RANKING,
    check_number,
)
from dssm_tf.model.semantic_ranker import encode_distinct
from dssm_tf.runtime.trained_ranker import SETTING_NAMES, TrainedRanker, Vectors, texts_of
from dssm_tf.runtime.vector_ranker import Side, VectorRanker
from dssm_tf.text_features import TextFeatures

_REBUILD_HINT = "Copy the export again, or write it again with `dssm export`."


def _signature(function: Callable[..., dict[str, tf.Tensor]]) -> Any:
    """A function of raw texts as a signature of its name."""
    specs = [tf.TensorSpec([None], tf.string, name) for name in INPUTS[function.__name__]]
    # If killed, autograph would leave files in the temporary directory.
    return tf.function(function, input_signature=specs, autograph=False)


def _signatures(ranker: RunRanker) -> dict[str, Callable[..., Any]]:
    """The functions of the signatures, by name. The graph contains each tower once."""
    weighted_prior = _weighted_prior_function(ranker)
    if isinstance(ranker, MaxSimRun):
        return _word_signatures(ranker, weighted_prior)
    towers = ranker.encoder.functions

    @_signature
    def encode_query(queries: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = towers["query"](queries)
        return {"embeddings": tf.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)}

    @_signature
    def encode_title(titles: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = towers["title"](titles)
        return {"embeddings": tf.concat([vectors, weighted_prior(titles)[:, None]], axis=1)}

    @_signature
    def score(queries: tf.Tensor, titles: tf.Tensor) -> dict[str, tf.Tensor]:
        products = encode_query(queries)["embeddings"] * encode_title(titles)["embeddings"]
        return {"scores": tf.reduce_sum(products, 1)}

    return {
        "encode_query": encode_query,
        "encode_title": encode_title,
        "score": score,
        "serving_default": score,
    }


def _word_signatures(
    ranker: MaxSimRun, weighted_prior: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """The signatures of a model that compares words: it returns no vectors of texts."""
    features = TextFeatures(ranker.vocabulary, ranker.frequencies)
    similarity = pair_score_function(ranker.model, features)

    @_signature
    def score(queries: tf.Tensor, titles: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": similarity(queries, titles) + weighted_prior(titles)}

    return {"score": score, "serving_default": score}


def _weighted_prior_function(ranker: RunRanker) -> Callable[..., Any]:
    """A function from titles `(n,)` to their weighted log-priors `(n,)`, in core ops."""
    prior = ranker.prior
    encoded = [title.encode() for title in prior.log_priors]
    # A longer title is not in the prior, so only this many bytes need to be read.
    max_bytes = max(map(len, encoded), default=0)
    keys = hash_texts(tf.constant(encoded, tf.string)).numpy()
    row_of_hash = IdTable.from_keys(keys, range(1, 1 + len(encoded)))
    weighted_priors = ranker.prior_weight * np.array([prior.unseen, *prior.log_priors.values()])

    def weighted_prior(titles: tf.Tensor) -> tf.Tensor:
        row = row_of_hash(hash_texts(normalize(titles, prior.rules, max_bytes)))
        return tf.gather(tf.constant(weighted_priors, tf.float32), row)

    return weighted_prior


def export_saved_model(run: Path | str, out: Path | str, name: str | None = None) -> Path:
    """Writes and verifies `out/<name>/<version>/`, with warm-up requests.

    The model computes in float32, even if it was trained in another precision.

    Signatures: `encode_query` (`queries` string `(n,)` to `embeddings` float32 `(n, d + 1)`),
    `encode_title` (`titles`), `score` (`queries` `(n,)` or `(1,)`, `titles` `(n,)` to `scores`
    float32 `(n,)`), which is also `serving_default`. If the server batches requests, both inputs
    must have the same length: repeat the query. The score is the inner product of the embeddings.
    The first `d` numbers of an embedding are a unit vector; their inner product is the cosine.
    A model with the score `maxsim` returns no vectors of texts, and has only `score`.

    Args:
        run: directory that `dssm train` wrote.
        out: TensorFlow Serving's directory of models.
        name: the model's name; by default the tower's, or `maxsim`.

    Returns:
        The version's directory; its number is one above the highest existing one.

    Raises:
        UserError: the run is unusable, or the exported model differs from the trained one.
    """
    run = Path(run)
    ranker = load_run(run, name)
    with new_version(out, ranker.name, "saved_model.pb") as (temporary, target):
        module = tf.Module()
        module.weights = [weight.value for weight in ranker.model.weights]
        signatures = _signatures(ranker)
        tf.saved_model.save(module, str(temporary), signatures=signatures)
        extra = temporary / EXTRA
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", ranker.name, signatures)
        for file in (CONFIG, MODEL_CARD, VOCABULARY, SPEC, QUERY_IDS):
            shutil.copyfile(run / file, extra / file)
        ranking = {name: getattr(ranker, name) for name in SETTING_NAMES}
        (extra / RANKING).write_text(json.dumps(ranking) + "\n", "utf-8")
        write_checksums(temporary)
        verify(load_export(temporary), ranker)
    return target


def load_export(version: Path) -> ExportedRanker | ExportedMaxSim:
    """Loads a version of an export as a ranker.

    Raises:
        UserError: the directory is not an export, a file is missing, damaged or changed, or the
            model can do more than compute, see `check_saved_model`.
    """
    check_files(version, None, _REBUILD_HINT)
    reads_words = load_config(version / EXTRA / CONFIG).score.reads_words
    return ExportedMaxSim(version) if reads_words else ExportedRanker(version)


class ExportedRanker(VectorRanker):
    """Ranks with the signatures of an export, and gives the scores that a server would give.

    Args:
        version: the directory of a version; see `load_export`.
    """

    def __init__(self, version: Path) -> None:
        _read_settings(self, version)
        self.tower_name = load_config(version / EXTRA / CONFIG).tower.name
        self._check_not_forked = ForkCheck()
        self._model = _load(version, ("encode_query", "encode_title"))

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        return self._call_signature(f"encode_{side}", texts)[:, :-1]

    def _weighted_priors(self, titles: Sequence[str]) -> Vectors:
        return self._call_signature("encode_title", titles)[:, -1]

    def _call_signature(self, signature: str, texts: Sequence[str]) -> Vectors:
        self._check_not_forked(self.name)
        call, (name,) = self._model.signatures[signature], INPUTS[signature]
        return encode_distinct(
            lambda raw: call(**{name: raw})["embeddings"],
            texts,
            int(call.structured_outputs["embeddings"].shape[1]),
        )


class ExportedMaxSim(TrainedRanker):
    """Ranks with the signature `score` of an export whose model compares words.

    Args:
        version: the directory of a version; see `load_export`.
    """

    def __init__(self, version: Path) -> None:
        _read_settings(self, version)
        self._check_not_forked = ForkCheck()
        self._model = _load(version, ("score",))

    def score_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """See `TrainedRanker`. Titles are not cached."""
        keys, row_of_title = self.vocabulary.rules.distinct(texts_of("titles", titles))
        texts = texts_of("queries", queries)
        scores = np.empty((len(texts), len(keys)), np.float32)
        for row, query in enumerate(texts):
            scores[row] = self._scores([query], keys)
        return scores[:, row_of_title]

    def similarity_matrix(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """See `TrainedRanker`."""
        title_list = texts_of("titles", titles)
        return self.score_matrix(queries, title_list) - self.weighted_prior(title_list)

    def score_pairs(self, queries: Iterable[str], titles: Iterable[str]) -> Vectors:
        """See `TrainedRanker`."""
        return self._scores(texts_of("queries", queries), texts_of("titles", titles))

    def _weighted_priors(self, titles: Sequence[str]) -> Vectors:
        return self._scores([""], titles)  # a query without words adds nothing to the prior

    def _scores(self, queries: Sequence[str], titles: Sequence[str]) -> Vectors:
        """The answer of the signature."""
        if not titles:
            return np.zeros(0, np.float32)
        self._check_not_forked(self.name)
        call = self._model.signatures["score"]
        answer = call(queries=_strings(queries), titles=_strings(titles))
        scores: Vectors = answer["scores"].numpy()
        return scores


def _load(version: Path, signatures: Sequence[str]) -> Any:
    """Loads a SavedModel after a check of its operations, and checks its weights.

    Returns:
        The model. Keep it: signatures do not own its variables.

    Raises:
        UserError: the model is not one that this package exports, see `check_saved_model`.
    """
    check_saved_model(version)
    try:
        model = tf.saved_model.load(str(version))
        for name in signatures:
            inputs = model.signatures[name].structured_input_signature[1]
            if {*inputs} != {*INPUTS[name]}:
                raise ValueError(f"the signature {name} has the inputs {', '.join(inputs)}")
            for weight in model.signatures[name].variables:
                array = np.asarray(weight.numpy())
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    raise ValueError(f"{weight.name} has a number that is not finite")
    except MemoryError:
        raise  # the machine has too little for a good file
    except Exception as error:  # TensorFlow raises almost any kind for a file it cannot load
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise UserError(
            f"{version} is not a SavedModel of this package ({reason}). {_REBUILD_HINT}"
        ) from None
    return model


def _read_settings(ranker: TrainedRanker, version: Path) -> None:
    """Sets the attributes of a ranker from the files of an export."""
    extra = version / EXTRA
    settings = read_json(extra / RANKING, _REBUILD_HINT)
    if not isinstance(settings, dict) or not {*SETTING_NAMES} == {*settings}:
        raise UserError(
            f"{extra / RANKING} does not have {', '.join(SETTING_NAMES)}. {_REBUILD_HINT}"
        )
    largest = float(np.finfo(np.float32).max)
    for name, low, high in (
        ("prior_weight", 0.0, LARGEST_WEIGHT),
        ("mean_prior", -largest, largest),
        ("cutoff", -largest, largest),
    ):
        check_number(extra / RANKING, name, settings[name], low, high)
    for name in SETTING_NAMES:
        setattr(ranker, name, settings[name])
    ranker.vocabulary = load_vocabulary(extra, Spec.load(extra))


def _strings(texts: Sequence[str]) -> tf.Tensor:
    """Texts as a tensor, lone surrogates included."""
    return tf.constant([text.encode("utf-8", "surrogatepass") for text in texts], tf.string)


def write_warmup(path: Path, model: str, signatures: Container[str]) -> None:
    """Writes requests that TensorFlow Serving runs at load, so that the first user need not wait.

    Args:
        path: `assets.extra/tf_serving_warmup_requests`.
        model: the served model's name.
        signatures: the names of its signatures.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, names in INPUTS.items():
            if signature not in signatures:
                continue
            for texts in (ADVERSARIAL[4:5], ADVERSARIAL[4:6] * 4):
                request = {
                    "model_spec": {"name": model, "signature_name": signature},
                    "inputs": {name: tf.make_tensor_proto(texts, tf.string) for name in names},
                }
                log = prediction_log_pb2.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString(deterministic=True))
