"""Shapes of batches: planned sizes, length groups, and batches that do not fit a plan."""

from __future__ import annotations

import pytest
import tensorflow as tf
from pytest import approx

from dssm_tf.data.texts import BatchShapes, LengthGroup, TextShape
from tests.data.click_batches import FOXES, LOG, SIZE, WORDS, Click, batches, steps, tensors, text


def sizes(matrices) -> list[tuple[int, ...]]:
    matrices = matrices if isinstance(matrices, tuple) else (matrices,)
    return [tuple(matrix.shape) for matrix in matrices]


def test_a_batch_that_does_not_fit_grows_by_eighths_of_the_planned_size():
    # 4 distinct titles on a plan of 3: the step is max(3 // 8, 1) = 1, so 4. The longest has two
    # words, and `#green#` five trigrams; 7 words are 6 distinct ones and the padding.
    shape = TextShape((LengthGroup(1, 3),), (LengthGroup(2, 3),))
    inputs, _ = tensors(FOXES, shapes=BatchShapes({"titles": shape}, distinct_titles=3))
    assert sizes(inputs["titles"]["tokens"]) == [(4, 2)]
    assert sizes(inputs["titles"]["word_ngrams"]) == [(7, 5)]
    # 32 words on a plan of 24 with steps of 3: 24, 27, 30, 33.
    long = BatchShapes({"query": TextShape((LengthGroup(24, 1),))})
    grown, _ = tensors([Click("red " * 32, "fox")], shapes=long)
    assert sizes(grown["query"]["tokens"]) == [(1, 33)]


def test_rows_of_similar_length_are_grouped_and_rows_has_the_row_of_each_text():
    titles = TextShape((LengthGroup(1), LengthGroup(2)), (LengthGroup(3), LengthGroup(5)))
    inputs, _ = tensors(FOXES, shapes=BatchShapes({"titles": titles}))
    batch = inputs["titles"]
    # `fish` and `bear` have one word; `red fox` and `green owl` two.
    assert sizes(batch["tokens"]) == [(2, 1), (2, 2)]
    # Padding, red, fox and owl have up to 3 trigrams; fish and bear 4, green 5.
    assert sizes(batch["word_ngrams"]) == [(4, 3), (3, 5)]
    assert not batch["word_ngrams"][0].numpy()[0].any()
    assert sorted(batch["rows"].numpy()) == [0, 1, 2, 3]


@pytest.mark.parametrize("joint", [False, True])
def test_with_planned_shapes_all_batches_have_one_shape_and_the_same_rows(joint):
    unplanned = batches(LOG, SIZE, joint=joint)
    planned = unplanned.with_shapes(fixed=True)
    elements = [*planned.epochs(0, 0, 2)]
    shapes_of_inputs = {
        tuple(tuple(tensor.shape) for tensor in tf.nest.flatten(inputs))
        for inputs, _, _ in elements
    }
    assert len(shapes_of_inputs) == 1
    assert steps(elements) == [
        [row._replace(negatives={k: approx(v) for k, v in row.negatives.items()}) for row in step]
        for step in steps(unplanned.epochs(0, 0, 2))
    ]
    assert planned.shapes == unplanned.with_shapes(fixed=True).shapes


def test_a_joint_text_batch_has_a_word_twice_if_a_query_and_a_title_have_it():
    inputs, _ = tensors(FOXES, joint=True)
    assert set(inputs) == {"texts", "candidates", "in_batch"}
    words = [tuple(row) for row in inputs["texts"]["word_ngrams"].numpy()]
    ids_of_words = [tuple(id for id in word if id) for word in words if any(word)]
    assert sorted(ids_of_words) == sorted(text(word)[0] for word in ("red", "fox", "owl", *WORDS))
