"""Plain data is read; anything else in a file is rejected."""

from __future__ import annotations

import pytest

from dssm_tf.common.plain_data import parse_yaml


def test_plain_documents_are_read():
    text = "tower: {name: lstm, cells: 3}\nlist: [1, 2.5, true, null]\nempty:\n"
    assert parse_yaml(text) == {
        "tower": {"name": "lstm", "cells": 3},
        "list": [1, 2.5, True, None],
        "empty": None,
    }
    assert parse_yaml("") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: *b", r"the alias \*b is not allowed"),
        ("a: &a [1]\nb: *a", r"the alias \*a is not allowed; repeat its value .*line 2"),
        ("a: &a {b: 1}\nc:\n  <<: *a", r"the alias \*a"),
        ("[" * 100_000, "recursion"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: 9" + "9" * 5000, "integer string conversion"),
        ("a: 2020-99-99", "month"),
        ("a: [1", "expected"),
        ("a: \x00", "special characters"),
        ("? {a: 1}\n: 2", "unhashable"),
    ],
)
def test_yaml_that_is_not_plain_data_is_rejected(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_yaml(text)


def test_a_small_file_with_nested_aliases_is_refused_at_once():
    lines = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    with pytest.raises(ValueError, match=r"the alias \*a0 is not allowed"):
        parse_yaml("\n".join(lines))
