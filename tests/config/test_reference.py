"""The page and the JSON Schema that are generated from the configuration models."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from dssm_tf.config import load_baseline
from dssm_tf.config.reference import PAGE, SCHEMA, page, schema
from tests.conftest import CHECKOUT

CONFIGS = [
    path for path in sorted((CHECKOUT / "configs").glob("**/*.yaml")) if load_baseline(path) is None
]
STALE = "run: python -m dssm_tf.config.reference"


def test_the_page_and_the_schema_are_current():
    assert PAGE.read_text("utf-8") == page(), STALE
    assert SCHEMA.read_text("utf-8") == schema(), STALE


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_schema_accepts_every_shipped_configuration(path):
    jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), json.loads(schema()))


@pytest.mark.parametrize(
    "text",
    [
        "tower: {name: cnn}",
        "tower: {cells: 3}",
        "tower: {name: lstm}\noptimizer: {schedule: {warmup: 0.1}}",
        "tower: {name: lstm}\njudgments: {file: j, loss: {temperature: 2}}",
        "tower: {name: lstm, widths: [3]}",
        "tower: {name: lstm, dropout: 1.0}",
        "tower: {name: lstm}\noptimizer: {name: adam, schedule: {name: cosin}}",
        "tower: {name: lstm}\ntraining: {epochs: 0}",
        "{tower: {name: lstm}, gama: 1}",
    ],
)
def test_the_schema_refuses_wrong_values_as_the_configuration_does(text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json.loads(schema()))


def test_the_schema_lets_a_section_leave_out_its_default_name():
    raw = yaml.safe_load("tower: {name: lstm}\nloss: {gamma: 5}\noptimizer: {learning_rate: 0.1}")
    jsonschema.validate(raw, json.loads(schema()))


def test_the_page_has_a_row_for_every_key_and_its_default():
    text = page()
    assert "| `cells` | whole number, at least 1 | `96` | Size of the cell state" in text
    assert "| `gamma` | number, above 0 or `auto` | `10.0` |" in text
    assert "custom" not in text
