"""Rows are planned in groups of similar length, so that few cells are padding."""

import numpy as np
import pytest

from dssm_tf.data.texts import LengthGroup, plan_shapes


def text_batch(lengths, word_lengths):
    """Matrices whose rows have these numbers of entries."""

    def matrix(sizes):
        return (np.arange(max(sizes)) < np.array(sizes)[:, None]).astype(np.int32)

    return {"tokens": matrix(lengths), "word_ngrams": matrix(word_lengths)}


@pytest.fixture
def inputs():
    """Two batches: 2 and 3 queries of one word, 200 short titles and up to 2 of 40 words."""
    queries = [text_batch([1] * n, [0, 5]) for n in (2, 3)]
    titles = [text_batch([2] * 200 + [40] * n, [0, *[4] * 100]) for n in (1, 2)]
    candidates = np.array([[201]])
    return [
        {"query": query, "titles": title, "candidates": candidates}
        for query, title in zip(queries, titles, strict=True)
    ]


def test_shapes_are_planned_for_each_text_batch(inputs):
    shapes = plan_shapes(inputs, fixed=False)
    assert shapes.text_shape("query").tokens == (LengthGroup(1),)
    assert shapes.text_shape("titles").tokens == (LengthGroup(2), LengthGroup(40))
    assert shapes.text_shape("titles").word_ngrams == (LengthGroup(4),)
    assert shapes.distinct_titles == 0


def test_the_bounds_of_length_groups_are_quantiles_of_the_lengths(inputs):
    # Titles: 400 rows of 2 words and 3 of 40; words of titles: 2 empty rows, which take a column,
    # and 200 of 4. So the quantile .005 of the words is 1.
    shapes = plan_shapes(inputs, fixed=False, quantiles=(0.005, 0.5, 1))
    assert shapes.text_shape("titles").tokens == (LengthGroup(2), LengthGroup(40))
    assert shapes.text_shape("titles").word_ngrams == (LengthGroup(1), LengthGroup(4))


def test_a_joint_text_batch_of_both_sides_has_one_shape():
    joint = [
        {
            "texts": text_batch([1] * 3 + [2] * 200 + [40], [0, *[4] * 100]),
            "candidates": np.full((3, 5), 200, np.int32),
        }
    ]
    assert plan_shapes(joint, fixed=False).text_shape("texts").tokens == (
        LengthGroup(2),
        LengthGroup(40),
    )
    # 201 * 1.1 + 1 = 222 -> 224.
    assert plan_shapes(joint, fixed=True).distinct_titles == 224


def test_fixed_shapes_have_a_tenth_of_headroom_rounded_up_to_8(inputs):
    shapes = plan_shapes(inputs, fixed=True)
    # 200 * 1.1 + 1 = 221 -> 224; 2 * 1.1 + 1 = 3 -> 8; 202 * 1.1 + 1 = 223 -> 224.
    assert shapes.text_shape("titles").tokens == (LengthGroup(2, 224), LengthGroup(40, 8))
    assert shapes.distinct_titles == 224
