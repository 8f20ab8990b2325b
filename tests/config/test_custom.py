"""Towers and losses from outside the package: described in a configuration, and rebuilt."""

from __future__ import annotations

import subprocess
import sys

import keras
import numpy as np
import pytest
import yaml
from keras import ops

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, parse_config
from dssm_tf.config.custom_parts import with_custom_parts
from dssm_tf.config.losses import CustomLossConfig
from dssm_tf.config.towers import CustomTowerConfig, DSSMConfig, RNNConfig
from dssm_tf.losses import KL, Hinge, RankingLoss
from dssm_tf.model.build import build_model
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.towers.tower import Tower
from tests.conftest import CHECKOUT


@keras.saving.register_keras_serializable(package="custom_test")
class Scaled(DSSM):
    """A DSSM whose vectors are scaled."""

    def __init__(self, vocabulary_size, widths=(4,), factor=1.0, **kwargs):
        super().__init__(vocabulary_size, widths, **kwargs)
        self.factor = factor

    def encode(self, words, present):
        return self.factor * super().encode(words, present)

    def get_config(self):
        return super().get_config() | {"factor": self.factor}


@keras.saving.register_keras_serializable(package="custom_test")
class Lead(RankingLoss):
    """A power of the missing lead over the first negative."""

    def __init__(self, power=1, **kwargs):
        super().__init__(**kwargs)
        self.power = power

    def per_query(self, scores, targets, mask, correction):
        return ops.power(1 + scores[:, 1] - scores[:, 0], self.power)

    def get_config(self):
        return super().get_config() | {"power": self.power}


@keras.saving.register_keras_serializable(package="custom_test")
class NoTower(keras.layers.Layer):
    """A layer that is neither a tower nor a loss."""


class Unregistered(DSSM):
    """A tower that is not registered with Keras."""


class UnregisteredLoss(Hinge):
    """A loss that is not registered with Keras."""


def round_trip(**sections: object) -> Config:
    """A configuration after it was written to YAML and read."""
    config = Config.model_validate({"tower": DSSMConfig(), **sections})
    loaded = parse_config(yaml.safe_load(config.dump()))
    assert loaded == config
    return loaded


def refusal(action, *arguments) -> str:
    """The message of a UserError."""
    with pytest.raises(UserError) as caught:
        action(*arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "tower",
    [
        Scaled(9, (5, 3), 2.5, dropout=0.25, ngram_dropout=0.5, initializer="he_normal"),
        DSSM(9, (5, 3), dropout=0.25),  # the package's own classes are registered too
    ],
)
def test_a_tower_is_written_to_yaml_read_and_built_for_another_vocabulary(tower):
    config = round_trip(tower=CustomTowerConfig.from_tower(tower))
    rebuilt = config.tower.build(7, name="query_tower", dtype="mixed_bfloat16")
    assert type(rebuilt) is type(tower)
    assert (rebuilt.name, rebuilt.dtype_policy.name) == ("query_tower", "mixed_bfloat16")
    not_stored = {"name", "dtype", "vocabulary_size"}  # they differ by tower and run
    assert not not_stored & set(config.tower.config)
    for key, value in tower.get_config().items():
        if key not in not_stored:
            assert rebuilt.get_config()[key] == value, key
    assert rebuilt.vocabulary_size == 7


def test_a_model_of_a_custom_tower_has_the_vectors_of_the_tower():
    config = round_trip(tower=CustomTowerConfig.from_tower(Scaled(1, (5, 3), 2.5)))
    model = build_model(config, 6)
    tower = Scaled(6, (5, 3), 2.5)
    tower.build()
    tower.set_weights(model.title_tower.get_weights())
    texts = {"word_ngrams": np.array([[0, 0], [1, 2]]), "tokens": np.array([[1]])}
    vectors = np.array(tower(texts))
    assert vectors.any()
    np.testing.assert_array_equal(np.array(model.title_tower(texts)), vectors)


def test_a_loss_is_written_to_yaml_and_read_unchanged():
    loss = Lead(power=3, reduction="sum", name="lead")
    rebuilt = round_trip(loss=CustomLossConfig.from_loss(loss)).loss.build()
    assert type(rebuilt) is Lead
    assert rebuilt.get_config() == loss.get_config()
    assert rebuilt.power == 3


def test_custom_parts_replace_those_of_the_configuration():
    config = Config(tower=DSSMConfig(widths=(8,)))
    custom = with_custom_parts(config, lambda size: Scaled(size, factor=2.0), Lead(power=2))
    assert custom.tower.config["factor"] == 2
    assert custom.loss.build().power == 2
    assert custom.model_copy(update={"tower": config.tower, "loss": config.loss}) == config
    assert with_custom_parts(config, None, None) == config


@pytest.mark.parametrize(
    ("describe", "instance", "message"),
    [
        (
            CustomTowerConfig.from_tower,
            Unregistered(3),
            "Unregistered is not registered with Keras",
        ),
        (CustomLossConfig.from_loss, UnregisteredLoss(), "UnregisteredLoss is not registered with"),
        (
            CustomTowerConfig.from_tower,
            NoTower(),
            "received a NoTower; expected a subclass of Tower",
        ),
        (
            CustomLossConfig.from_loss,
            NoTower(),
            "received a NoTower; expected a subclass of Rankin",
        ),
        (
            CustomLossConfig.from_loss,
            keras.losses.MeanSquaredError(),
            "received a MeanSquaredError; expected a subclass of RankingLoss",
        ),
    ],
)
def test_unregistered_classes_and_wrong_bases_are_refused_before_they_are_written(
    describe, instance, message
):
    text = refusal(describe, instance)
    assert message in text
    if "is not registered" in message:
        assert '@keras.saving.register_keras_serializable(package="...")' in text


@pytest.mark.parametrize(
    ("section", "arguments", "base"),
    [(CustomTowerConfig, (3,), Tower), (CustomLossConfig, (), RankingLoss)],
)
def test_a_name_of_no_class_or_of_a_wrong_class_is_refused(section, arguments, base):
    for name, message in [
        (
            "custom_test>Missing",
            "custom_test>Missing is not registered with Keras; import the module",
        ),
        ("custom_test>NoTower", f"custom_test>NoTower is not a subclass of {base.__name__}"),
    ]:
        config = section(registered_name=name, config={})
        assert message in refusal(config.build, *arguments)


@pytest.mark.long
def test_a_name_that_is_not_registered_imports_nothing(tmp_path):
    (tmp_path / "trap.py").write_text('raise SystemExit("imported")\n')
    program = """
import sys
from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
for name in ("trap>Tower", "trap.Tower", "trap", "os>system"):
    config = parse_config({
        "tower": {"name": "custom", "registered_name": name, "config": {}},
        "loss": {"name": "custom", "registered_name": name, "config": {"module": "trap"}},
    })
    for build in (lambda: config.tower.build(3), config.loss.build):
        try:
            build()
        except UserError as error:
            assert f"{name} is not registered with Keras" in str(error), error
        else:
            raise AssertionError(name)
assert "trap" not in sys.modules
"""
    subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path.append({str(tmp_path)!r})\n{program}"],
        cwd=CHECKOUT,
        check=True,
    )


@pytest.mark.parametrize("section", ["tower", "loss"])
def test_a_custom_section_needs_its_class_and_its_configuration(section):
    for raw, message in [
        ({"name": "custom", "config": {}}, f"{section}.registered_name is missing"),
        ({"name": "custom", "registered_name": "a>b"}, f"{section}.config is missing"),
    ]:
        assert message in refusal(parse_config, {"tower": {"name": "dssm"}, section: raw})


@pytest.mark.parametrize(
    "tower",
    [
        DSSM(9, (5, 3), dropout=0.25, initializer="he_normal"),
        CLSM(9, window=5, features=4, widths=(3,)),
        LSTMRNN(9, cells=4, forget_gate=False),
    ],
)
def test_a_tower_of_this_package_gets_its_own_section(tower):
    config = with_custom_parts(Config(tower=RNNConfig()), lambda size: tower)
    assert config.tower.name != "custom"
    rebuilt = config.tower.build(9, name=tower.name)
    assert type(rebuilt) is type(tower)
    assert rebuilt.get_config() == tower.get_config()


def test_an_initializer_that_has_no_name_in_yaml_makes_a_custom_section():
    initializer = keras.initializers.RandomNormal(stddev=0.3)
    config = with_custom_parts(
        Config(tower=RNNConfig()), lambda size: DSSM(size, (4,), initializer=initializer)
    )
    assert config.tower.name == "custom"
    assert config.tower.build(3).hashing.initializer.stddev == 0.3


@pytest.mark.parametrize("loss", ["hinge", Hinge(margin=0.4)])
def test_a_loss_of_this_package_gets_its_own_section(loss):
    config = with_custom_parts(Config(tower=RNNConfig()), loss=loss)
    assert config.loss.name == "hinge"
    assert config.loss.margin == (0.2 if loss == "hinge" else 0.4)


@keras.saving.register_keras_serializable(package="custom_test")
class Forgetful(DSSM):
    """A tower whose `get_config` has no `factor`."""

    def __init__(self, vocabulary_size, factor=1.0, **kwargs):
        super().__init__(vocabulary_size, **kwargs)


@keras.saving.register_keras_serializable(package="custom_test")
class WithArray(Scaled):
    """A tower whose `get_config` has an array."""

    def get_config(self):
        return super().get_config() | {"factor": np.ones(2)}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"tower": Forgetful}, "Forgetful.get_config lacks factor; it must return every argument"),
        ({"tower": WithArray}, "a value that JSON cannot represent"),
        ({"tower": DSSM(3, (4,))}, "expected a function from a vocabulary size to a tower"),
        ({"tower": "dssm"}, "expected a function from a vocabulary size to a tower"),
        ({"tower": lambda size: NoTower()}, "received a NoTower; expected a subclass of Tower"),
        ({"loss": "hinges"}, "received loss='hinges'; expected one of"),
        ({"loss": KL()}, "loss is KL, which is for graded lists"),
        ({"loss": keras.losses.MeanSquaredError()}, "received loss=.*; expected one of"),
    ],
)
def test_unusable_parts_are_refused(parts, message):
    config = Config(tower=RNNConfig())
    with pytest.raises(UserError, match=message):
        with_custom_parts(config, **parts)
