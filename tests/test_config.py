"""Configurations: errors name the key, the received value and the allowed values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from dssm_tf.benchmark.systems import choose_systems
from dssm_tf.common.errors import UserError
from dssm_tf.config import Config, find_config, load_baseline, load_config, parse_config
from dssm_tf.config.towers import DSSMConfig
from dssm_tf.systems import BASELINES
from tests.components import (
    CLICK_LOSS_CONFIGS,
    GRADED_LOSS_CONFIGS,
    TOWER_CONFIGS,
    changed_values,
    defaults,
)
from tests.conftest import CHECKOUT
from tests.script import python

CONFIGS = CHECKOUT / "configs"
ALL_CONFIGS = [str(path.relative_to(CONFIGS))[:-5] for path in sorted(CONFIGS.glob("**/*.yaml"))]
BASELINE_CONFIGS = [name for name in ALL_CONFIGS if load_baseline(find_config(name))]
TOWER_CONFIG_NAMES = [name for name in ALL_CONFIGS if name not in BASELINE_CONFIGS]
TOWER = "tower: {name: lstm}\n"


def write_config(folder: Path, text: str) -> Path:
    path = folder / "model.yaml"
    path.write_text(text, "utf-8")
    return path


def error_message(folder: Path, text: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_config(write_config(folder, text), overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", TOWER_CONFIG_NAMES)
def test_every_shipped_configuration_loads(name):
    config = load_config(find_config(name))
    assert parse_config(yaml.safe_load(config.dump())) == config
    assert load_config(CONFIGS / f"{name}.yaml") == config


@pytest.mark.parametrize("name", BASELINE_CONFIGS)
def test_every_configuration_of_a_baseline_is_a_row_of_the_benchmark(name):
    path = find_config(name)
    base, parameters = load_baseline(path)
    (row,) = choose_systems([name])
    assert (row.name, row.kind, row.base) == (name, "baseline", base)
    if name in BASELINES:  # such a configuration has the defaults of the baseline
        plain, configured = BASELINES[base](), BASELINES[base](**parameters)
        assert configured.parameters() == plain.parameters()
    with pytest.raises(UserError, match="configures a baseline; use it with `dssm benchmark`"):
        load_config(path)


def test_invalid_configurations_of_baselines_are_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    for text, message in [
        ("baseline: {size: 3}\n", "expected only `baseline:`, with its `name`"),
        ("baseline: {name: dse}\ngamma: 1\n", "expected only `baseline:`, with its `name`"),
        ("baseline: {name: bm52}\n", "no baseline 'bm52'; choose from bm25"),
        ("baseline: {name: bm25, c: 1}\n", "mine.yaml: bm25 has no parameter 'c'; it has k1, b"),
        ("baseline: {name: bm25, k: 1}\n", r"it has k1, b\. Did you mean 'k1'\?$"),
        (
            "baseline: {name: dse, optimizer: no}\n",
            "mine.yaml: dse: optimizer is False; it should be 'adam' or 'sgd'",
        ),
    ]:
        path.write_text(text, "utf-8")
        with pytest.raises(UserError, match=message):
            choose_systems([str(path)])


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_every_shipped_configuration_has_a_header_with_paper_expectation_and_command(name):
    first_key, command = "tower:", f"dssm train --config {name} "
    if name in BASELINE_CONFIGS:
        first_key, command = "baseline:", f"--systems bm25,{name} "
    header = find_config(name).read_text("utf-8").partition(first_key)[0]
    for part in ("# Paper:", "# Expect:", "# Command:", command):
        assert part in header
    if name.startswith("paper/"):
        fields = dict(re.findall(r"^# (\w+): +(.*(?:\n#  .*)*)", header, re.MULTILINE))
        assert re.search(r"\d s ", fields["Time"])
        assert re.search(r"table|figure|sec\.", fields["Paper"])


def test_values_are_read_and_other_keys_have_their_defaults(tmp_path):
    text = (
        "tower: {name: dssm, widths: [288, 96], dropout: 0.1}\n"
        "shared_towers: true\nloss: {name: click_softmax, gamma: 7.5}\n"
        "optimizer: {name: nesterov, learning_rate: 1e-3, clip_norm: 5}\n"
        "training: {epochs: 3}\nranking: {prior: 0.05}\n"
    )
    text += "letter_ngrams: [sorted_trigrams, pairs]\n"
    config = load_config(write_config(tmp_path, text))
    assert config.letter_ngrams == ("pairs", "sorted_trigrams")  # in their fixed order
    assert Config(tower=config.tower).letter_ngrams == ("trigrams",)
    assert config.tower == DSSMConfig(widths=(288, 96), dropout=0.1)
    assert (config.shared_towers, config.loss.gamma, config.ranking.prior) == (True, 7.5, 0.05)
    assert config.optimizer.learning_rate == 0.001  # YAML reads 1e-3 as text
    assert config.training.epochs == 3
    assert config.training.batch_size == Config(tower=config.tower).training.batch_size


# Text of a file, and parts of the error message that are separated by ` … `.
ERRORS_BESIDE_A_TOWER = [
    (
        "gama: 1",
        "gama is not a key … allowed here: tower, score, shared_towers, letter_ngrams",
    ),
    ("letter_ngrams: [words]", "letter_ngrams.0: … 'pairs', 'trigrams' … received 'words'"),
    ("letter_ngrams: []", "letter_ngrams: … one or more kinds … received []"),
    (
        "letter_ngrams: [pairs, pairs]",
        "letter_ngrams: … each once; received ['pairs', 'pairs']",
    ),
    ("training: {epoch: 3}", "training.epoch is not a key … epochs, max_steps"),
    ("training:", "training: must be a section with keys among epochs … None"),
    ("loss: {gamma: -1}", "loss.gamma: … greater than 0 … received -1"),
    ("loss: {gamma: true}", "loss.gamma: … number … received True"),
    ("ranking: {prior: false}", "ranking.prior: … number … received False"),
    ("shared_towers: 1", "shared_towers: … boolean; received 1"),
    ("loss: {gamma: 1, gamma: 2}", "is not YAML: the key 'gamma' occurs twice"),
    ("tower: {name: rnn}", "is not YAML: the key 'tower' occurs twice"),
    ("training: {monitor: loss}", "training.monitor: … 'val_loss' … 'loss'"),
    ("loss: {gamma: .inf}", "loss.gamma: … finite … received inf"),
    ("loss: {gamma: much}", "loss.gamma: … valid number … 'auto' … 'much'"),
    ("loss: {name: l2}", "loss.name must be one of click_softmax … 'l2'"),
    ("loss: {name: click_softmax, margin: 1}", "loss.margin is not … name, gamma"),
    ("training: {folds: 1}", "training.folds: … received 1"),
    ("negatives: {mined: 2}", "negatives: … mined_from … belong together"),
    ("training: {epochs: 0}", "training.epochs: … or equal to 1 … received 0"),
    ("training: {epochs: true}", "training.epochs: … integer … received True"),
    ("training: {seed: -1}", "training.seed: … or equal to 0 … received -1"),
    ("training: {seed: 2147483648}", "training.seed: … less than 2147483648"),
    ("a: " + "[" * 9999, "is not YAML … recursion"),
    ("training: {monitor: mrr}", "training.monitor: … 'ndcg@1' … 'mrr'"),
    ("training: {precision: int8}", "training.precision: … 'mixed_bfloat16'"),
    ("training: {xla: maybe}", "training.xla: … boolean … 'auto' … 'maybe'"),
    ("ranking: {prior: much}", "ranking.prior: … number … 'auto' … 'much'"),
    ("ranking: {prior: -1}", "ranking.prior: … equal to 0 … received -1"),
    ("negatives: {recorded: -1}", "negatives.recorded: … equal to 0"),
    ("optimizer: {learning_rate: 0}", "optimizer.learning_rate: … than 0"),
    ("optimizer: {clip_norm: 0}", "optimizer.clip_norm: … greater than 0"),
    ("optimizer: {name: sdg}", "optimizer.name must be one of nesterov, adam … 'sdg' … 'sgd'?"),
    ("optimizer: {lerning_rate: 1}", "optimizer.lerning_rate is not a key … 'learning_rate'?"),
    (
        "optimizer: {name: nesterov, options: {edge: 0.1}}",
        "optimizer.options is not a key; allowed here: name, learning_rate … edge_momentum, edge.",
    ),
    (
        "optimizer: {schedule: {name: cosin}}",
        "optimizer.schedule.name must be one of constant, cosine, exponential; received 'cosin' … "
        "'cosine'?",
    ),
    (
        "optimizer: {schedule: cosine}",
        "optimizer.schedule must be a section with a name (one of con",
    ),
    (
        "optimizer: {schedule: {end: 0.1}}",
        "optimizer.schedule.name must be one of constant, cosine, exponential; received {'end'",
    ),
    (
        "optimizer: {schedule: {name: cosine, warm_up: 0.1}}",
        "optimizer.schedule.warm_up is not a key; allowed here: name, warmup, end … 'warmup'?",
    ),
    (
        "optimizer: {name: nesterov, schedule: {name: exponential, warmup: 0.1}}",
        "optimizer.schedule.warmup is not a key; allowed here: name, end.",
    ),
    (
        "optimizer: {schedule: {name: cosine, warmup: 1}}",
        "optimizer.schedule.warmup: … less than 1; received 1.",
    ),
    (
        "optimizer: {schedule: {name: exponential, end: 0}}",
        "optimizer.schedule.end: … greater than 0; received 0.",
    ),
    ("judgments: {weight: 2}", "judgments.file is missing"),
    ("judgments: {file: j, weight: 0}", "judgments.weight: input should be greater than 0"),
    ("judgments: {file: j, max_grade: 200}", "judgments.max_grade: input should be less than"),
    ("judgments: {file: j, loss: {name: hinge}}", "name must be one of listwise_softmax"),
    ("judgments: {file: j, grades: 3}", "judgments.grades is not a key"),
]
ERRORS_OF_WHOLE_FILES = [
    ("tower: {name: dssm, widths: 3}", "tower.widths: input should be a valid list; received 3."),
    ("tower: {name: lstm, widths: [3]}", "tower.widths is not a key … cells, peepholes"),
    ("tower: {name: cnn}", "tower.name must be one of dssm, clsm … 'cnn'"),
    ("tower: {cells: 3}", "tower.name must be one of dssm, clsm … {'cells': 3}"),
    ("tower: lstm", "tower must be a section with a name (one of dssm, clsm … 'lstm'"),
    ("tower:", "tower must be a section … None"),
    ("loss: {gamma: 3}", "tower is missing … `tower: {name: lstm}`"),
    ("tower: {name: dssm, widths: [3, 0]}", "tower.widths.1: … received 0"),
    ("tower: {name: rnn, bptt_steps: 0}", "tower.bptt_steps: … equal to 1 … received 0"),
    ("tower: {name: clsm, window: 4}", "tower.window: … odd, such as 3 or 5 … received 4"),
    ("tower: {name: lstm, dropout: 1.0}", "tower.dropout: … less than 1 … 1.0"),
    ("tower: {name: lstm, initializer: x}", "tower.initializer: … 'glorot_uniform' … 'x'"),
    ("[1, 2]", "contains a list … `tower:`"),
    ("", "contains nothing … `tower:`"),
    ("a: [", "is not YAML … line 1"),
]


@pytest.mark.parametrize(
    ("text", "parts"),
    [*((TOWER + text, parts) for text, parts in ERRORS_BESIDE_A_TOWER), *ERRORS_OF_WHOLE_FILES],
)
def test_an_error_names_the_key_what_was_received_and_what_is_allowed(tmp_path, text, parts):
    message = error_message(tmp_path, text)
    assert "model.yaml" in message
    for part in parts.split(" … "):
        assert part in message
    assert "more problem" not in message


SIZES = [
    (name, key, [] if isinstance(default, tuple) else 0)
    for name, config in TOWER_CONFIGS.items()
    for key, default in defaults(config).items()
    if type(default) in (tuple, int)
]


@pytest.mark.parametrize(("tower", "key", "empty"), SIZES)
def test_no_size_of_a_tower_may_be_0_or_empty(tower, key, empty):
    with pytest.raises(UserError, match=rf" tower.{key}: .*(equal to|at least) 1.*; received"):
        parse_config({"tower": {"name": tower, key: empty}})


def test_further_problems_are_counted_and_long_values_truncated(tmp_path):
    text = TOWER + "training: {epochs: 0, xla: maybe}\nloss: {gamma: 0}"
    assert error_message(tmp_path, text).endswith("received 0. (2 more problems)")
    assert len(error_message(tmp_path, TOWER + f"loss: {{gamma: [{'1, ' * 500}]}}")) < 250


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    for name, message in (
        ("nowhere.yaml", "nowhere.yaml cannot be read: No such file .*; give a configuration"),
        ("", "cannot be read"),
        ("bytes.yaml", "is not YAML"),
    ):
        with pytest.raises(UserError, match=message):
            load_config(tmp_path / name)


def test_a_name_is_first_a_path_and_then_a_shipped_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"nope is neither a file nor .* which has .*dssm.*lstm"):
        find_config("nope")
    assert find_config("lstm").is_relative_to(CHECKOUT)
    Path("lstm").write_text(TOWER)
    assert find_config("lstm") == Path("lstm")


def test_overrides_replace_values_and_earlier_overrides_and_create_sections(tmp_path):
    path = write_config(tmp_path, TOWER + "training: {epochs: 3, seed: 4}\nloss:\n")
    overrides = ["training.epochs=5", "training.epochs=6", "tower.cells=32", "loss.gamma=2.5",
                 "optimizer.options={beta_1: 0.8}", "training.xla=true"]  # fmt: skip
    config = load_config(path, overrides)
    assert (config.training.epochs, config.training.seed, config.loss.gamma) == (6, 4, 2.5)
    assert (config.tower.name, config.tower.cells) == ("lstm", 32)
    assert config.optimizer.options == {"beta_1": 0.8}
    assert config.training.xla is True


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("training.epochs", "expected KEY=VALUE"),
        ("=5", "expected KEY=VALUE"),
        ("loss.gamma.x=5", "gamma is a value"),
        ("training.epochs=[1", "not a YAML value"),
    ],
)
def test_an_invalid_override_is_named_in_the_error(tmp_path, override, reason):
    message = error_message(tmp_path, TOWER + "loss: {gamma: 3}\n", override)
    assert f"--set '{override}'" in message
    assert reason in message


@pytest.mark.parametrize(("override", "in_file"), [("tower.name=lstm", True), ("tower.x=3", False)])
def test_the_error_says_if_an_override_makes_a_key_of_the_file_invalid(tmp_path, override, in_file):
    message = error_message(tmp_path, "tower: {name: dssm, widths: [4]}", override)
    assert ("The key is in the file; override the whole section" in message) == in_file


@pytest.mark.parametrize("tower", TOWER_CONFIGS)
@pytest.mark.parametrize("loss", CLICK_LOSS_CONFIGS)
@pytest.mark.parametrize("graded", GRADED_LOSS_CONFIGS)
def test_a_dumped_configuration_loads_unchanged_and_has_every_value(tmp_path, tower, loss, graded):
    graded_loss = {"name": graded, **changed_values(GRADED_LOSS_CONFIGS[graded])}
    table = {"file": "a b.tsv", "loss": graded_loss}
    config = parse_config(
        {
            "tower": {"name": tower, **changed_values(TOWER_CONFIGS[tower])},
            "loss": {"name": loss, **changed_values(CLICK_LOSS_CONFIGS[loss])},
            "judgments": {**table, "max_grade": 2},
            "teacher": table,
            "training": {"xla": True, "averaging": 0.9},
            "optimizer": {
                "name": "nesterov",
                "clip_norm": 2.0,
                "momentum": 0.9,
                "schedule": {"name": "cosine", "warmup": 0.1},
            },
            "ranking": {"prior": 0.1},
        }
    )
    dumped = config.dump()
    assert load_config(write_config(tmp_path, dumped)) == config
    raw = yaml.safe_load(dumped)
    assert set(raw) == set(Config.model_fields)
    for section in ("tower", "loss", "training"):
        assert set(raw[section]) == set(type(getattr(config, section)).model_fields)


def test_a_configuration_is_checked_without_keras():
    python("""
import sys
from dssm_tf.config import find_config, load_config
from dssm_tf.tuning.search import Search
load_config(find_config("bilstm"), ["tower.cells=3"])
assert not {"keras", "tensorflow"} & set(sys.modules)
""")


def test_an_override_of_a_nested_name_says_how_to_replace_the_section(tmp_path):
    text = TOWER + "optimizer: {schedule: {name: cosine, warmup: 0.1}}\n"
    message = error_message(tmp_path, text, "optimizer.schedule.name=constant")
    assert message.startswith("--set optimizer.schedule.name=constant: optimizer.schedule.warmup")
    assert "--set 'optimizer.schedule={name: ...}'" in message
