"""The speed of the first matrix and of training, as ratios in one run."""

import pytest

from tests.benchmarks import towers

pytestmark = pytest.mark.benchmark


def test_hashing_once_per_distinct_word_is_faster_than_hashing_every_occurrence():
    rates = towers.hashing_rates()
    assert rates["once per distinct word"] > 1.5 * rates["every occurrence"]


def test_training_the_lstm_is_at_least_as_fast_as_pytorch():
    pytest.importorskip("torch", reason="the rival is PyTorch's EmbeddingBag + LSTM")
    rates = towers.training_rates()
    # 2 is the aim; half of it is left to a busy machine.
    assert rates["dssm-tf lstm"] > rates["PyTorch EmbeddingBag + LSTM"]


@pytest.mark.parametrize("tower", ["dssm", "lstm"])
def test_batches_encode_faster_than_single_texts(tower):
    rates = towers.encoding_rates(tower)
    assert rates[f"{tower}, batches of 1024"] > 10 * rates[f"{tower}, batches of 1"]
