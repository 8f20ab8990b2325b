"""A compact model behind the server answers what the SavedModel of the same run does."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from dssm_tf.export.saved_model import ADVERSARIAL, tolerance
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.server.sources import find_models, open_servable
from tests.server.conftest import QUERIES, TITLES


def encoded(texts) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def test_both_forms_of_a_run_answer_alike(run, exports, compact):
    saved, small = open_servable(exports / "pets" / "1"), open_servable(compact)
    allowed = 2 * tolerance(SemanticRanker.load(run))
    texts = encoded([*ADVERSARIAL, *QUERIES, *TITLES])
    known = {name for name, one in saved.definition.signature_def.items() if one.inputs}
    assert set(small.definition.signature_def) == known
    for name in sorted(known):
        theirs, ours = (one.definition.signature_def[name] for one in (saved, small))
        assert set(ours.inputs) == set(theirs.inputs)
        for output in theirs.outputs:
            assert ours.outputs[output].tensor_shape == theirs.outputs[output].tensor_shape
        given = dict.fromkeys(theirs.inputs, texts)
        wanted, found = saved.run(name, given), small.run(name, given)
        for output, values in wanted.items():
            assert found[output].dtype == np.float32
            assert np.abs(found[output] - values).max() <= allowed
    one_query = {"queries": texts[:1], "titles": texts}
    gap = small.run("score", one_query)["scores"] - saved.run("score", one_query)["scores"]
    assert np.abs(gap).max() <= allowed
    nothing = small.run("score", {"queries": [], "titles": []})["scores"]
    assert nothing.shape == (0,)
    assert small.vocabulary().fingerprint == saved.vocabulary().fingerprint


def test_a_compact_model_is_found_from_each_of_its_levels(compact):
    base = compact.parent
    assert list(find_models(base.parent)) == list(find_models(base)) == ["pets"]
    assert find_models(compact)["pets"].version == 1


def test_it_is_served_without_tensorflow(checkout, compact):
    code = """
import sys
from pathlib import Path
from dssm_tf.server.models import Model
from dssm_tf.server.sources import Source
from dssm_tf.server.server import Server
from serving.client import Client, RestClient
model = Model("pets", Source(Path(sys.argv[1])))
with Server([model], port=0, rest_api_port=0) as server:
    with Client(server.grpc_address, "pets") as client:
        scores = client.score("fox", ["red fox", "owl"])
    other = RestClient(server.rest_address, "pets").score("fox", ["red fox", "owl"])
    assert (other == scores).all()
sys.exit(sorted({"tensorflow", "keras", "apache_beam", "pyarrow"} & set(sys.modules)) or 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(compact.parent)],
        cwd=checkout, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
