"""Export of a trained run as a SavedModel that takes raw strings, for TensorFlow Serving."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from dssm_tf.common.checksums import check_files, files_in, write_checksums
from dssm_tf.common.files import atomic_directory
from dssm_tf.common.model_versions import next_version
from dssm_tf.common.plain_data import read_json
from dssm_tf.data.format import SPEC, VOCABULARY, Spec, load_vocabulary
from dssm_tf.export.signatures import INPUTS
from dssm_tf.export.verify import ADVERSARIAL, verify
from dssm_tf.model.run_files import CONFIG, EXTRA, MODEL_CARD, QUERY_IDS, RANKING
from dssm_tf.model.semantic_ranker import SemanticRanker, encode_distinct
from dssm_tf.runtime.trained_ranker import SETTING_NAMES, Vectors
from dssm_tf.runtime.vector_ranker import Side, VectorRanker
from dssm_tf.text_features import IdTable, hash_texts, normalize

_REBUILD_HINT = "Copy the export again, or write it again with `dssm export`."


def _signatures(ranker: SemanticRanker) -> dict[str, Callable[..., Any]]:
    """The functions of the signatures, by name. The graph contains each tower once."""
    towers, weighted_prior = ranker.encoder.functions, _weighted_prior_function(ranker)

    def signature(function: Callable[..., dict[str, tf.Tensor]]) -> Any:
        specs = [tf.TensorSpec([None], tf.string, name) for name in INPUTS[function.__name__]]
        # If killed, autograph would leave files in the temporary directory.
        return tf.function(function, input_signature=specs, autograph=False)

    @signature
    def encode_query(queries: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = towers["query"](queries)
        return {"embeddings": tf.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)}

    @signature
    def encode_title(titles: tf.Tensor) -> dict[str, tf.Tensor]:
        vectors = towers["title"](titles)
        return {"embeddings": tf.concat([vectors, weighted_prior(titles)[:, None]], axis=1)}

    @signature
    def score(queries: tf.Tensor, titles: tf.Tensor) -> dict[str, tf.Tensor]:
        products = encode_query(queries)["embeddings"] * encode_title(titles)["embeddings"]
        return {"scores": tf.reduce_sum(products, 1)}

    return {
        "encode_query": encode_query,
        "encode_title": encode_title,
        "score": score,
        "serving_default": score,
    }


def _weighted_prior_function(ranker: SemanticRanker) -> Callable[..., Any]:
    """A function from titles `(n,)` to their weighted log-priors `(n,)`, in core ops."""
    prior = ranker.prior
    encoded = [title.encode() for title in prior.log_priors]
    # A longer title is not in the prior, so only this many bytes need to be read.
    max_bytes = max(map(len, encoded), default=0)
    keys = hash_texts(tf.constant(encoded, tf.string)).numpy()
    row_of_hash = IdTable.of(keys, range(1, 1 + len(encoded)))
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

    Args:
        run: directory that `dssm train` wrote.
        out: TensorFlow Serving's directory of models.
        name: the model's name; the tower's by default.

    Returns:
        The version's directory; its number is one above the highest existing one.

    Raises:
        UserError: the run is unusable, or the exported model differs from the trained one.
    """
    run = Path(run)
    ranker = SemanticRanker.load(run, name)
    target = next_version(Path(out) / ranker.name)
    with atomic_directory(target) as temporary:
        module = tf.Module()
        module.weights = [weight.value for weight in ranker.model.weights]
        tf.saved_model.save(module, str(temporary), signatures=_signatures(ranker))
        extra = temporary / EXTRA
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", ranker.name)
        for file in (CONFIG, MODEL_CARD, VOCABULARY, SPEC, QUERY_IDS):
            shutil.copyfile(run / file, extra / file)
        ranking = {name: getattr(ranker, name) for name in SETTING_NAMES}
        (extra / RANKING).write_text(json.dumps(ranking) + "\n", "utf-8")
        write_checksums(temporary, files_in(temporary))
        verify(ExportedRanker(temporary), ranker)
    return target


class ExportedRanker(VectorRanker):
    """Ranks with the signatures of an export, and gives the scores that a server would give.

    Args:
        version: the directory of a version.

    Raises:
        UserError: the directory is not an export, or a file is missing, damaged or changed.
    """

    def __init__(self, version: Path) -> None:
        check_files(version, None, _REBUILD_HINT)
        extra = version / EXTRA
        for name, value in read_json(extra / RANKING, _REBUILD_HINT).items():
            setattr(self, name, value)
        self.vocabulary = load_vocabulary(extra, Spec.load(extra))
        self._model = tf.saved_model.load(str(version))  # the signatures do not own its variables

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        return self._call_signature(f"encode_{side}", texts)[:, :-1]

    def _weighted_priors(self, titles: Sequence[str]) -> Vectors:
        return self._call_signature("encode_title", titles)[:, -1]

    def _call_signature(self, signature: str, texts: Sequence[str]) -> Vectors:
        call, (name,) = self._model.signatures[signature], INPUTS[signature]
        return encode_distinct(
            lambda raw: call(**{name: raw})["embeddings"],
            texts,
            int(call.structured_outputs["embeddings"].shape[1]),
        )


def write_warmup(path: Path, model: str) -> None:
    """Writes requests that TensorFlow Serving runs at load, so that the first user need not wait.

    Args:
        path: `assets.extra/tf_serving_warmup_requests`.
        model: the served model's name.
    """
    from tensorflow_serving.apis import prediction_log_pb2

    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, names in INPUTS.items():
            for texts in (ADVERSARIAL[4:5], ADVERSARIAL[4:6] * 4):
                request = {
                    "model_spec": {"name": model, "signature_name": signature},
                    "inputs": {name: tf.make_tensor_proto(texts, tf.string) for name in names},
                }
                log = prediction_log_pb2.PredictionLog(predict_log={"request": request})
                writer.write(log.SerializeToString(deterministic=True))
