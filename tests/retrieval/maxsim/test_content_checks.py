"""Arrays that fit each other, but neither the titles nor the model, are refused."""

from __future__ import annotations

import shutil

import numpy as np
import pyarrow
import pytest
from pyarrow import feather

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.array_checks import array_problem
from dssm_tf.retrieval.content_checks import content_problem, sample_rows
from dssm_tf.retrieval.maxsim_arrays import compute_arrays
from dssm_tf.retrieval.maxsim_index import TITLES, MaxSimIndex
from dssm_tf.runtime.remembered_clicks import RememberedClicks, query_hash
from tests.retrieval.maxsim.conftest import CORPUS, corpus_of

pytest.importorskip("numba")


def problem_with(index, **changes):
    """The name of the array that is refused although all arrays fit each other."""
    arrays = index.arrays._replace(**changes)
    maxsim = index.model.maxsim
    dimensions = maxsim.dimension, maxsim.text_dimension
    assert array_problem(arrays, len(index.words), len(index), *dimensions) is None
    problem = content_problem(
        index.model, index.title_table["title"], index.words, arrays, index.clicked
    )
    return problem and problem[0]


def test_the_arrays_of_an_index_are_those_of_its_titles(index):
    assert problem_with(index) is None


def test_titles_in_another_order_are_refused_although_checksums_fit(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "copy")
    table = feather.read_table(copy / TITLES, memory_map=False)
    reversed_table = pyarrow.table(
        {name: table[name].to_pylist()[::-1] for name in table.column_names}
    )
    feather.write_feather(reversed_table, copy / TITLES, compression="uncompressed")
    write_checksums(copy, {*files_in(copy)} - {CHECKSUMS})
    with pytest.raises(UserError, match="Build it again") as caught:
        MaxSimIndex.open(copy)
    assert "\n" not in str(caught.value)


def test_postings_of_other_titles_are_refused(index, ranker):
    """The words of the entries are exchanged; the arrays are those of a valid index."""
    exchanged = [entry.title for entry in CORPUS]
    exchanged[0], exchanged[1] = exchanged[1], exchanged[0]
    words, arrays = compute_arrays(ranker, corpus_of(exchanged), 16, lambda *_: None)
    assert {*words} == {*index.words}
    problem = content_problem(ranker, index.title_table["title"], words, arrays, None)
    assert problem is not None


def test_numbers_that_are_not_those_of_the_model_are_refused(index):
    arrays = index.arrays
    assert problem_with(index, vectors=arrays.vectors[:, ::-1]) == "vectors"
    assert problem_with(index, query_weights=arrays.query_weights * 2) == "query_weights"
    assert problem_with(index, inverse_totals=arrays.inverse_totals * 2) == "inverse_totals"
    assert problem_with(index, priors=arrays.priors + 1) == "priors"
    assert problem_with(index, text_vectors=arrays.text_vectors[:, ::-1]) == "text_vectors"
    assert problem_with(index, text_scales=arrays.text_scales * 2) == "text_scales"
    half = arrays.similarities / 2
    assert problem_with(index, similarities=half) == "similarities"
    other = (arrays.similar_rows + 1) % len(index.words)
    assert problem_with(index, similar_rows=other.astype(np.int32)) == "similar_rows"


def test_a_remembered_click_at_another_title_is_refused(index):
    rules = index.model.vocabulary.rules
    remembered = RememberedClicks(
        queries=np.array([query_hash(["red", "shoe"])]),
        starts=np.array([0, 1]),
        titles=rules.ids([CORPUS[0].title]),
        clicks=np.array([3]),
        log_sums=np.zeros(1),
        mu=4.0,
        gamma=1.0,
    )
    index = index.with_remembered_clicks(remembered)
    assert problem_with(index) is None
    index.clicked.positions[:] = (index.clicked.positions + 1) % index.arrays.titles
    assert problem_with(index) == "clicked_titles.npy"


@pytest.mark.parametrize(("size", "expected"), [(0, []), (1, [0]), (3, [0, 1, 2]), (9, [0, 4, 8])])
def test_a_sample_has_the_first_and_the_last_row(size, expected):
    assert sample_rows(size, 3) == expected
