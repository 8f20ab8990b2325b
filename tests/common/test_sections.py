"""A table says what is missing of a line."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.common.sections import Choice, Named, Positive, Table

TABLE = Table(
    "here.TABLE",
    {
        "counter": Choice("collections:Counter", Named, units=(Positive, 3)),
        "nowhere": Choice("dssm_tf.nowhere:Counter", Named),
        "classless": Choice("collections:Abacus", Named),
    },
)


def test_a_line_makes_its_class_of_the_arguments_of_its_section():
    section = TABLE.parse({"name": "counter"})
    assert TABLE["counter"]("abba", **section.arguments) == {"a": 2, "b": 2, "units": 3}


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("nowhere", r"dssm_tf.nowhere:Counter, which .*: No module named 'dssm_tf.nowhere'"),
        ("classless", r"collections:Abacus, which .*: module 'collections' has no attribute"),
    ],
)
def test_a_line_whose_class_is_missing_says_which(name, missing):
    with pytest.raises(UserError, match=missing):
        TABLE[name]()


def test_a_name_without_a_line_says_where_the_lines_are():
    with pytest.raises(ValueError, match=r"one of counter, nowhere, classless, .* here.TABLE"):
        TABLE.parse({"name": "abacus"})


def test_a_line_that_is_written_wrongly_says_so_where_it_stands():
    with pytest.raises(TypeError, match=r"Choice received 'a.b.C' and .*expected 'module:Class'"):
        Choice("a.b.C", Named)
    with pytest.raises(TypeError, match=r"each key as name=\(type, default\)"):
        Choice("a.b:C", Named, units=int)
    with pytest.raises(TypeError, match=r"some.TABLE: gru is 'a.b:C'; expected a Choice"):
        Table("some.TABLE", {"gru": "a.b:C"})
