"""Learning-rate schedules of a configuration, and optimizers that Keras refuses."""

from __future__ import annotations

import math
from typing import Any

import keras
import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config

STEPS = (0, 5, 10, 55, 100)
RATE, TOTAL, WARMUP, END = 0.2, 100, 0.1, 0.1


def optimizer_config(**section: Any) -> Any:
    return parse_config({"tower": {"name": "dssm"}, "optimizer": section}).optimizer


def cosine(step: int) -> float:
    """A line from 0 to the rate, then the rate times a half cosine from 1 to `END`."""
    warmup_steps = WARMUP * TOTAL
    if step < warmup_steps:
        return RATE * step / warmup_steps
    progress = (step - warmup_steps) / (TOTAL - warmup_steps)
    return RATE * (END + (1 - END) * (1 + math.cos(math.pi * progress)) / 2)


def cosine_without_warmup(step: int) -> float:
    """Half a cosine from the rate to 0."""
    return RATE * (1 + math.cos(math.pi * step / TOTAL)) / 2


def exponential(step: int) -> float:
    """The rate times `END` to the power of the fraction of the steps."""
    return RATE * END ** (step / TOTAL)


def test_the_formulas_by_hand():
    # Half of the warm-up at step 5, its end at 10, the middle of the cosine at 55.
    assert [cosine(step) for step in STEPS] == pytest.approx([0, 0.1, 0.2, 0.11, 0.02])
    assert [exponential(step) for step in (0, 50, 100)] == pytest.approx(
        [0.2, 0.2 * 0.1**0.5, 0.02]
    )


@pytest.mark.parametrize("name", ["adam", "nesterov"])
@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        ({"name": "cosine", "warmup": WARMUP, "end": END}, cosine),
        ({"name": "cosine"}, cosine_without_warmup),
        ({"name": "exponential", "end": END}, exponential),
    ],
)
def test_the_learning_rate_follows_its_formula(name, schedule, formula):
    config = optimizer_config(name=name, learning_rate=RATE, schedule=schedule)
    assert config.depends_on_total_steps
    optimizer = config.build(total_steps=TOTAL)
    number = keras.Variable(0.5)
    optimizer.build([number])
    for step in STEPS:
        optimizer.iterations.assign(step)
        assert float(optimizer.learning_rate) == pytest.approx(formula(step), rel=1e-5, abs=1e-8)


def test_a_constant_rate_stays_a_number():
    for section in ({}, {"schedule": {"name": "constant"}}):
        config = optimizer_config(learning_rate=RATE, **section)
        assert not config.depends_on_total_steps
        assert config.schedule.build(RATE, TOTAL) == RATE
        assert config.build(total_steps=TOTAL).get_config()["learning_rate"] == pytest.approx(RATE)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "exponential"])
@pytest.mark.parametrize("total_steps", [1, 2, 7])
def test_a_schedule_of_few_steps_has_finite_rates(schedule, total_steps):
    section: dict[str, Any] = {"name": schedule}
    if schedule == "cosine":
        section["warmup"] = 0.9
    rate = optimizer_config(schedule=section).schedule.build(RATE, total_steps)
    for step in range(total_steps + 2):
        value = float(rate(step) if callable(rate) else rate)
        assert 0 <= value <= RATE * (1 + 1e-6)


@pytest.mark.parametrize("name", ["adam", "sgd", "nesterov"])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "exponential"])
def test_get_config_and_from_config_keep_an_optimizer_with_a_schedule(name, schedule):
    config = optimizer_config(name=name, schedule={"name": schedule}, clip_norm=2.0)
    optimizer = config.build(total_steps=TOTAL, averaging=0.9)
    assert (optimizer.use_ema, optimizer.ema_momentum) == (True, 0.9)
    copy = type(optimizer).from_config(optimizer.get_config())
    assert copy.get_config() == optimizer.get_config()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"name": "adam", "options": {"beta": 1}}, "adam does not accept"),
        ({"name": "adam", "options": {"beta_1": "x"}}, "adam does not accept"),
        ({"name": "sgd", "options": {"beta_1": 0.9}}, "sgd does not accept"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_trained(section, message):
    with pytest.raises(UserError, match=rf"^optimizer: {message} {{.*}} \([^\n]+$"):
        optimizer_config(**section).check()


def test_every_optimizer_of_the_configuration_passes_its_check():
    names = optimizer_config().__class__.model_fields["name"].annotation.__args__
    for name in (*names, "nesterov"):
        for clip_norm in (None, 1.0):
            optimizer_config(name=name, clip_norm=clip_norm).check()
