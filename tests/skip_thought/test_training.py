"""Training: the loss falls, seeds decide, bad settings and divergence are errors."""

from dataclasses import replace

import numpy as np
import pytest

from dssm_tf.errors import UserError
from dssm_tf.skip_thought import training
from dssm_tf.skip_thought.passages import Passages
from dssm_tf.skip_thought.training import TrainingOptions, train

# Each sentence decides the next, so an encoder helps to tell it.
CYCLE = ["red kettle", "blue rug", "oak table", "tall lamp"]
PASSAGES = [[CYCLE[(start + i) % 4] for i in range(9)] for start in range(4)]
SMALL = TrainingOptions(
    units=12, word_units=8, epochs=30, batch_size=18, learning_rate=0.02, seed=1
)


def test_neighbours_that_can_be_told_are_learned():
    vectors, history = train(PASSAGES, SMALL)
    # Eight words: log(8) = 2.08 nats when none is told from another.
    assert history[0].first > 1.5
    assert history[-1].last < 0.5
    thoughts = vectors(CYCLE)
    assert thoughts.shape == (4, 12)
    assert np.linalg.matrix_rank(thoughts) == 4


def test_combine_skip_trains_both_encoders_and_equal_seeds_agree():
    options = replace(SMALL, kind="combine", max_steps=2, epochs=1)
    first, history = train(PASSAGES, options)
    assert [epoch.encoder for epoch in history] == ["uni", "bi"]
    assert first.dimension == 24
    again, _ = train(PASSAGES, options)
    assert (again(CYCLE) == first(CYCLE)).all()
    other, _ = train(PASSAGES, replace(options, seed=2))
    assert not (other(CYCLE) == first(CYCLE)).all()


def test_a_pass_reads_every_sentence_once_with_its_own_neighbours():
    text = Passages.of([[f"w{i}" for i in range(12)]], 100, 30)
    seen = []
    for current, before, after in training._batches(text, 4, seed=3):
        for row in range(4):
            word, *rest = current[row]
            seen.append(word)
            assert not any(rest)
            # w0 .. w11 each come once: in the dictionary's order, which is the alphabet's
            name = int(text.dictionary[word - 1][1:])
            for step, matrix in ((-1, before), (1, after)):
                if 0 <= name + step < 12:
                    assert text.dictionary[matrix[row, 0] - 1] == f"w{name + step}"
                    assert text.dictionary[matrix[row, 1] - 1] == "<eos>"
                else:
                    assert not matrix[row].any()
    assert sorted(seen) == list(range(3, 15))


def test_training_that_diverges_stops_with_the_step():
    with pytest.raises(UserError, match=r"uni-skip diverged at step \d+ of pass \d+ .* smaller"):
        train(PASSAGES, replace(SMALL, learning_rate=1e38, max_steps=5))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "tri"}, "kind is 'tri'"),
        ({"units": 0}, "units is 0; expected at least 1"),
        ({"units": 7, "kind": "bi"}, "give an even number"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected more than 0"),
        ({"reset": "never"}, "reset is 'never'"),
    ],
)
def test_impossible_options_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed)


def test_most_batches_of_a_click_log_hold_queries_and_titles():
    queries = [" ".join(f"w{n}" for n in range(1 + i % 9)) for i in range(180)]
    passage = ["title", *(text for query in queries for text in (query, "title"))]
    text = Passages.of([passage], 100, 30)
    title = 1 + text.dictionary.index("title")
    shares = [(batch[0][:, 0] == title).mean() for batch in training._batches(text, 12, seed=0)]
    assert np.mean([0 < share < 1 for share in shares]) > 0.5
