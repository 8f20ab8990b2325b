"""A table of classes, each imported when the first of it is made."""

from __future__ import annotations

import pytest

from dssm_tf.common.sections import Choice, Named, Positive, Table

TABLE = Table(
    {
        "counter": Choice("collections:Counter", Named, units=(Positive, 3)),
        "nowhere": Choice("dssm_tf.nowhere:Counter", Named),
    },
)


def test_a_line_makes_its_class_of_the_arguments_of_its_section():
    section = TABLE.parse({"name": "counter"})
    assert TABLE["counter"]("abba", **section.arguments) == {"a": 2, "b": 2, "units": 3}


def test_a_name_without_a_line_says_which_lines_there_are():
    with pytest.raises(ValueError, match="one of counter, nowhere"):
        TABLE.parse({"name": "abacus"})
