"""A component has the same parameters and defaults in Python and in the configuration."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dssm_tf.config import Config, parse_config
from dssm_tf.config.optimizer import NesterovConfig
from dssm_tf.config.scores import MaxSimConfig
from dssm_tf.config.section import Section
from dssm_tf.config.structure import section_classes
from dssm_tf.optimizers import ScheduledNesterov
from dssm_tf.scores import MaxSim
from tests.components import (
    LOSS_CLASSES,
    LOSS_CONFIGS,
    TOWER_CLASSES,
    TOWER_CONFIGS,
    build_loss,
    build_tower,
    changed_values,
    defaults,
)

COMPONENTS = {
    **{name: (TOWER_CLASSES[name], TOWER_CONFIGS[name]) for name in TOWER_CONFIGS},
    **{name: (LOSS_CLASSES[name], LOSS_CONFIGS[name]) for name in LOSS_CONFIGS},
    "maxsim": (MaxSim, MaxSimConfig),
    "nesterov": (ScheduledNesterov, NesterovConfig),
}
# A schedule is built into the learning rate, and the number of steps comes from the training.
NOT_IN_CONSTRUCTOR = {"schedule"}
NOT_IN_CONFIGURATION = {"vocabulary_size", "total_steps", "name"}


def all_sections(section: type[Section] = Config) -> Iterator[type[Section]]:
    """A section and all sections below it."""
    yield section
    for field in section.model_fields.values():
        for below in section_classes(field.annotation):
            yield from all_sections(below)


FIELDS = [
    pytest.param(section, name, id=f"{section.__name__}.{name}")
    for section in dict.fromkeys(all_sections())
    for name in section.model_fields
    if name != "name"
]


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_constructor_has_every_field_with_the_same_default(name):
    component, config = COMPONENTS[name]
    parameters = {
        parameter.name: parameter.default
        for parameter in inspect.signature(component).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
        and parameter.name not in NOT_IN_CONFIGURATION
    }
    fields = {
        field: default
        for field, default in defaults(config).items()
        if field not in NOT_IN_CONSTRUCTOR
    }
    assert parameters == fields
    for field, default in fields.items():  # 1 == 1.0 == True
        assert type(parameters[field]) is type(default), field


@pytest.mark.parametrize("name", TOWER_CONFIGS)
def test_a_tower_from_a_configuration_equals_one_from_the_constructor(name):
    arguments = changed_values(TOWER_CONFIGS[name])
    tower = TOWER_CONFIGS[name](**arguments).build(5, name="tower", dtype="mixed_bfloat16")
    expected = build_tower(name, 5, **arguments, name="tower", dtype="mixed_bfloat16")
    assert type(tower) is type(expected)
    assert tower.get_config() == expected.get_config()


@pytest.mark.parametrize("name", LOSS_CONFIGS)
def test_a_loss_from_a_configuration_equals_one_from_the_constructor(name):
    arguments = changed_values(LOSS_CONFIGS[name])
    loss, expected = LOSS_CONFIGS[name](**arguments).build(), build_loss(name, **arguments)
    assert type(loss) is type(expected)
    assert loss.get_config() == expected.get_config()


def test_nesterov_from_a_configuration_equals_one_from_the_constructor():
    config = NesterovConfig(
        learning_rate=0.1, clip_norm=2.0, momentum=0.9, edge_momentum=0.8, edge=0.25
    )
    optimizer = config.build(total_steps=50, averaging=0.75)
    expected = ScheduledNesterov(
        0.1, 50, momentum=0.9, edge_momentum=0.8, edge=0.25, clip_norm=2.0,
        use_ema=True, ema_momentum=0.75,
    )  # fmt: skip
    assert optimizer.get_config() == expected.get_config()


@pytest.mark.parametrize(("section", "name"), FIELDS)
def test_every_field_has_a_description(section, name):
    description = section.model_fields[name].description
    assert description
    assert description == description.strip()
    assert description.endswith(".")


def test_every_section_has_a_docstring_and_is_part_of_a_configuration():
    sections = set(all_sections())
    assert {NesterovConfig, *TOWER_CONFIGS.values(), *LOSS_CONFIGS.values()} < sections
    assert all(section.__doc__ for section in sections)


def test_gamma_auto_is_allowed_only_in_the_configuration():
    loss: Any = parse_config({"tower": {"name": "dssm"}, "loss": {"gamma": "auto"}}).loss
    with pytest.raises(ValueError, match=r"gamma is 'auto'; call resolve\(title_count\) before"):
        loss.build()
    with pytest.raises(ValueError, match="ClickSoftmax received gamma='auto'"):
        build_loss("click_softmax", gamma="auto")
    # 10 up to 2,500 titles, 25 from 6,250 titles on, and titles / 250 between.
    gammas = [loss.resolve(titles).build().gamma for titles in (1, 2500, 5000, 6250, 10**6)]
    assert gammas == [10, 10, 20, 25, 25]


def test_a_dumped_configuration_spells_out_every_parameter_of_its_components():
    for name, config in TOWER_CONFIGS.items():
        raw = yaml.safe_load(parse_config({"tower": {"name": name}}).dump())
        assert set(raw["tower"]) == {"name", *defaults(config)}
