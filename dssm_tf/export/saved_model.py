"""A trained run as a SavedModel that takes raw strings, for TensorFlow Serving."""

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
from dssm_tf.runtime.vector_ranker import SETTINGS, Side, VectorRanker, Vectors
from dssm_tf.text_features import Table, hash_texts, normalize

_AGAIN = "Copy the export again, or write it again with `dssm export`."


def _signatures(ranker: SemanticRanker) -> dict[str, Callable[..., Any]]:
    """The functions behind the signatures, by name; each tower is in the graph once."""
    towers, weighted_prior = ranker.encoder.functions, _prior(ranker)

    def signature(function):
        specs = [tf.TensorSpec([None], tf.string, one) for one in INPUTS[function.__name__]]
        # Autograph would leave files in the temporary directory when it is killed.
        return tf.function(function, input_signature=specs, autograph=False)

    @signature
    def encode_query(queries):
        vectors = towers["query"](queries)
        return {"embeddings": tf.pad(vectors, [[0, 0], [0, 1]], constant_values=1.0)}

    @signature
    def encode_title(titles):
        vectors = towers["title"](titles)
        return {"embeddings": tf.concat([vectors, weighted_prior(titles)[:, None]], axis=1)}

    @signature
    def score(queries, titles):
        products = encode_query(queries)["embeddings"] * encode_title(titles)["embeddings"]
        return {"scores": tf.reduce_sum(products, 1)}

    found = {one.__name__: one for one in (encode_query, encode_title, score)}
    return found | {"serving_default": score}


def _prior(ranker: SemanticRanker) -> Callable[..., Any]:
    """The weighted log-prior in core ops."""
    prior = ranker.prior
    encoded = [title.encode() for title in prior.log_priors]
    # A longer title is an unseen one, and need not be read to its end.
    longest = max(map(len, encoded), default=0)
    keys = hash_texts(tf.constant(encoded, tf.string)).numpy()
    rows = Table.of(keys, range(1, 1 + len(encoded)))
    shares = ranker.prior_weight * np.array([prior.unseen, *prior.log_priors.values()])

    def weighted(titles):
        row = rows(hash_texts(normalize(titles, prior.rules, longest)))
        return tf.gather(tf.constant(shares, tf.float32), row)

    return weighted


def export_saved_model(run: Path | str, out: Path | str, name: str | None = None) -> Path:
    """Writes `out/<name>/<version>/`, verified, with warm-up requests.

    It computes in float32, as all that ranks does, whatever precision it was trained in.

    Signatures: `encode_query` (`queries` string `(n,)` to `embeddings` float32 `(n, d + 1)`),
    `encode_title` (`titles`), `score` (`queries` `(n,)` or `(1,)`, `titles` `(n,)` to `scores`
    float32 `(n,)`), which is also `serving_default`. A server that batches requests wants equal
    lengths: repeat the query there. The inner product of the embeddings is the score; that of their
    first `d` numbers, which are unit vectors, is the cosine.

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
    ranker = SemanticRanker.load(run, name)
    target = next_version(Path(out) / ranker.name)
    with atomic_directory(target) as aside:
        served = tf.Module()
        served.weights = [weight.value for weight in ranker.model.weights]
        tf.saved_model.save(served, str(aside), signatures=_signatures(ranker))
        extra = aside / EXTRA
        extra.mkdir()
        write_warmup(extra / "tf_serving_warmup_requests", ranker.name)
        for file in (CONFIG, MODEL_CARD, VOCABULARY, SPEC, QUERY_IDS):
            shutil.copyfile(run / file, extra / file)
        ranking = {name: getattr(ranker, name) for name in SETTINGS}
        (extra / RANKING).write_text(json.dumps(ranking) + "\n", "utf-8")
        write_checksums(aside, files_in(aside))
        verify(ExportedRanker(aside), ranker)
    return target


class ExportedRanker(VectorRanker):
    """Ranks by the signatures of an export: what a server would answer, without a server.

    Args:
        version: the directory of a version.

    Raises:
        UserError: it is no export, or a file of it is missing, damaged or was changed.
    """

    def __init__(self, version: Path) -> None:
        check_files(version, None, _AGAIN)
        extra = version / EXTRA
        for name, value in read_json(extra / RANKING, _AGAIN).items():
            setattr(self, name, value)
        self.vocabulary = load_vocabulary(extra, Spec.load(extra))
        self._model = tf.saved_model.load(str(version))  # its variables live as long as it does

    def _encode(self, side: Side, texts: Sequence[str]) -> Vectors:
        return self._ask(f"encode_{side}", texts)[:, :-1]

    def _weighted(self, titles: Sequence[str]) -> Vectors:
        return self._ask("encode_title", titles)[:, -1]

    def _ask(self, signature: str, texts: Sequence[str]) -> Vectors:
        call, (name,) = self._model.signatures[signature], INPUTS[signature]
        return encode_distinct(
            lambda raw: call(**{name: raw})["embeddings"],
            texts,
            int(call.structured_outputs["embeddings"].shape[1]),
        )


def write_warmup(path: Path, model: str) -> None:
    """Writes requests TensorFlow Serving replays at load, so that no user waits for the first.

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
