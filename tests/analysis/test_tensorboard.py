"""What TensorBoard itself reads of the files."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from google.protobuf import text_format

from dssm_tf.analysis.survey import readings
from dssm_tf.analysis.tensorboard import CONFIG, METADATA, VECTORS, write_gates, write_projector
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.bilstm import BidirectionalLSTMRNN

TITLES = ["Red fox", "blue\towl", ""]


def test_the_projector_finds_vectors_and_titles_row_by_row(tmp_path):
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    vectors = np.arange(6.0).reshape(3, 2) / 7
    write_projector(tmp_path, vectors, TITLES)
    config = text_format.Parse((tmp_path / CONFIG).read_text(), ProjectorConfig())
    (titles,) = config.embeddings
    found = np.loadtxt(tmp_path / titles.tensor_path, delimiter="\t")
    assert found == pytest.approx(vectors, rel=1e-5)
    assert (tmp_path / titles.metadata_path).read_text() == "Red fox\nblue owl\n(empty)\n"
    assert (titles.tensor_path, titles.metadata_path) == (VECTORS, METADATA)


def test_histograms_hold_every_gate_at_every_place(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    words = ["aa", "bb", "cc"]
    vocabulary = Vocabulary(dict.fromkeys(n for word in words for n in letter_ngrams(word)))
    keras.utils.set_random_seed(0)
    tower = BidirectionalLSTMRNN(vocabulary.size, 4)
    tower.build()
    texts = ["aa bb cc", "bb cc", "cc aa"]
    write_gates(tmp_path, tower, vocabulary, texts)
    events = EventAccumulator(str(tmp_path), size_guidance={"tensors": 0}).Reload()
    assert set(events.Tags()["tensors"]) == {
        f"gates/{side}/{gate}" for side in tower.directions for gate in "ifocy"
    }
    # Read from the right, place 1 is the last word; place 3 has one text, too few.
    of_texts = [one[1].activations["i"] for one in readings(tower, vocabulary, texts)]
    places = events.Tensors("gates/right_to_left/i")
    assert [one.step for one in places] == [1, 2]
    for one in places:
        buckets = np.frombuffer(one.tensor_proto.tensor_content, np.float64).reshape(-1, 3)
        values = np.stack([rows[-one.step] for rows in of_texts])
        assert buckets[:, 2].sum() == values.size
        assert (buckets[0, 0], buckets[-1, 1]) == pytest.approx((values.min(), values.max()))
