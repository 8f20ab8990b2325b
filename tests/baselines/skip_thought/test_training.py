"""Training: the loss falls, seeds decide, bad settings and divergence are errors."""

from dataclasses import replace

import numpy as np
import pytest

from dssm_tf.baselines.skip_thought import training
from dssm_tf.baselines.skip_thought.passages import Passages
from dssm_tf.baselines.skip_thought.training import TrainingOptions, train
from dssm_tf.common.errors import UserError

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
        ({"predicted": 0}, "predicted is 0; expected at least 1"),
    ],
)
def test_impossible_options_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **changed)


def test_words_are_predicted_by_their_frequency_before_any_training():
    """Not by a thought vector that is the same for all sentences."""
    sentences = ["red red red blue", "red red blue kettle"] * 8
    options = replace(SMALL, learning_rate=1e-9, epochs=1, batch_size=16)
    (epoch,) = train([sentences], options)[1]
    counts = np.array([40, 16, 8, 16])  # of red, blue, kettle and the end
    shares = counts / counts.sum()
    assert epoch.first == pytest.approx(-(shares * np.log(shares)).sum(), abs=0.1)
    # Telling nothing apart would be log(4 + UNK + padding) = 1.8.
    assert epoch.first < 1.4


def test_words_that_are_not_predicted_are_one_word_to_the_decoders_only():
    sentences = ["red kettle", "red lamp", "red rug", "red table"] * 9
    all_of_them = replace(SMALL, learning_rate=1e-9, epochs=1, batch_size=36)
    red_alone = replace(all_of_them, predicted=1)
    losses = [train([sentences], one)[1][0].first for one in (all_of_them, red_alone)]
    # In red, the end and the other four words, each 1/12 of all: log(4) / 3 nats less.
    assert losses[0] - losses[1] == pytest.approx(np.log(4) / 3, abs=0.05)
    vectors, _ = train([sentences], red_alone)
    assert np.linalg.norm(np.diff(vectors(["red lamp", "red rug"]), axis=0)) > 1e-3


def test_a_repeated_sentence_is_its_own_neighbour():
    options = replace(SMALL, epochs=40, max_steps=60, batch_size=8)
    alone = [["red kettle", "blue rug"], ["oak table", "tall lamp"]] * 4
    plain, twice = (
        train(alone, replace(options, repeat=repeat))[1][-1].last for repeat in (False, True)
    )
    assert plain < 0.5  # the sentence after each is always the same
    assert twice > plain  # itself or the other one: which of the two cannot be told
    with pytest.raises(UserError, match="no two sentences"):
        train([["one"], ["two", "?"]], replace(options, repeat=True))


def test_most_batches_of_a_click_log_hold_queries_and_titles():
    queries = [" ".join(f"w{n}" for n in range(1 + i % 9)) for i in range(180)]
    passage = ["title", *(text for query in queries for text in (query, "title"))]
    text = Passages.of([passage], 100, 30)
    title = 1 + text.dictionary.index("title")
    shares = [(batch[0][:, 0] == title).mean() for batch in training._batches(text, 12, seed=0)]
    assert np.mean([0 < share < 1 for share in shares]) > 0.5
