"""`configs/paper/` has exactly the settings that the papers state.

P16 is Palangi et al. 2016, which also covers a row of their 2014 paper; S14 is Shen et al. 2014.
"""

from __future__ import annotations

from operator import attrgetter

import keras
import numpy as np
import pytest

from dssm_tf.baselines.skip_thought.baseline import SkipThought
from dssm_tf.config import config_directories, find_config, load_baseline, load_config
from dssm_tf.model.build import build_model
from dssm_tf.optimizers import ScheduledNesterov
from tests.reference.paper_settings import (
    OFF_IN_PAPERS,
    P16,
    P16_MOMENTUM,
    S14,
    S14_BATCH,
    SKIP_THOUGHT,
    TRIGRAMS,
)

ROWS = {**P16, **S14}


def configuration(name):
    return load_config(find_config(f"paper/{name}"))


def test_every_paper_configuration_of_a_tower_is_a_row_of_a_paper():
    paths = [path for directory in config_directories() for path in directory.glob("paper/*.yaml")]
    assert {path.stem for path in paths if load_baseline(path) is None} == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_sizes_negatives_and_gamma_are_those_of_the_row(name):
    config, row = configuration(name), ROWS[name]
    assert {key: getattr(config.tower, key) for key in row.tower} == row.tower
    assert config.negatives.recorded == row.negatives
    assert row.gamma in (None, config.loss.gamma)
    # Nesterov's method and plain gradient descent are tested below; nothing else may be set.
    assert {key: attrgetter(key)(config) for key in OFF_IN_PAPERS} == OFF_IN_PAPERS
    assert not getattr(config.optimizer, "options", {})


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.millions])
def test_the_first_matrices_of_both_towers_have_the_number_of_parameters_in_the_table(name):
    config = configuration(name)
    # One more trigram adds one row to the first matrix of each tower.
    smaller, larger = (build_model(config, trigrams).count_params() for trigrams in (5, 6))
    assert (larger - smaller) * TRIGRAMS / 1e6 == pytest.approx(ROWS[name].millions)


@pytest.mark.parametrize("name", P16)
def test_p16_trains_with_nesterovs_momentum_schedule_and_gradient_clipping(name):
    config = configuration(name)
    optimizer = config.optimizer.build(1000)
    assert isinstance(optimizer, ScheduledNesterov)
    assert optimizer.clip_norm == config.optimizer.clip_norm > 0
    ends, middle, fraction = P16_MOMENTUM.values()
    updates = np.arange(1000)
    at_an_end = (updates < fraction * 1000) | (updates >= (1 - fraction) * 1000)
    assert np.array(optimizer.momentum_at(updates)) == pytest.approx(
        np.where(at_an_end, ends, middle)
    )


@pytest.mark.parametrize("name", S14)
def test_s14_trains_by_plain_gradient_descent_in_batches_of_1024(name):
    config = configuration(name)
    optimizer = config.optimizer.build(1000)
    assert type(optimizer) is keras.optimizers.SGD
    assert (optimizer.momentum, optimizer.nesterov, optimizer.global_clipnorm) == (0, False, None)
    assert config.training.batch_size == S14_BATCH


def test_skip_thought_has_the_published_sizes():
    base, parameters = load_baseline(find_config("paper/skip_thought"))
    assert base == SkipThought.name
    assert {key: parameters[key] for key in SKIP_THOUGHT} == SKIP_THOUGHT
