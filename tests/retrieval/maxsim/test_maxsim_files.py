"""Files of the index of a maxsim model: what is saved, and errors for damaged files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.array_checks import array_problem
from dssm_tf.retrieval.index_arrays import Arrays
from dssm_tf.retrieval.maxsim_files import ARRAYS, SETTINGS, WORDS
from dssm_tf.retrieval.maxsim_index import TITLES, MaxSimIndex
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime.search_rules import read_rules
from tests.retrieval.maxsim.conftest import CORPUS, QUERIES, hits_of, ids

pytest.importorskip("numba")


def test_an_opened_index_returns_the_same_results_as_the_built_one(directory, index):
    opened = MaxSimIndex.open(directory)
    assert (len(opened), opened.summary) == (len(index), index.summary)
    for query in QUERIES:
        for hit, expected in zip(hits_of(opened, query), hits_of(index, query), strict=True):
            assert hit.doc_id == expected.doc_id
            assert hit.score == expected.score
            assert hit.score_breakdown() == expected.score_breakdown()


def test_two_builds_have_equal_bytes(directory, ranker, model_directory, tmp_path):
    MaxSimIndex.build(ranker, CORPUS).save(tmp_path / "i", model_directory)
    assert {*files_in(tmp_path / "i")} == {*files_in(directory)}
    for name in files_in(directory):
        assert (tmp_path / "i" / name).read_bytes() == (directory / name).read_bytes(), name


def test_the_settings_are_part_of_the_index(ranker, model_directory, tmp_path):
    index = MaxSimIndex.build(ranker, CORPUS, similar_words=3, rescored=7)
    index.save(str(tmp_path / "i"), str(model_directory))
    opened = MaxSimIndex.open(tmp_path / "i")
    assert (opened.similar_words, opened.rescored) == (3, 7)
    with pytest.raises(UserError, match="similar_words is 0; expected at least 1"):
        MaxSimIndex.build(ranker, CORPUS, similar_words=0)


@pytest.mark.parametrize("position", [-1, -4])  # the highest and the lowest byte of a float32
def test_a_changed_byte_is_an_error(directory, tmp_path, position):
    copy = shutil.copytree(directory, tmp_path / "i")
    for name in sorted({*files_in(copy)} - {CHECKSUMS, f"model/{CHECKSUMS}"}):
        raw = (copy / name).read_bytes()
        changed = bytearray(raw)
        changed[position] ^= 1
        (copy / name).write_bytes(changed)
        with pytest.raises(UserError, match=rf"{Path(name).name} is damaged or was changed"):
            MaxSimIndex.open(copy)
        (copy / name).write_bytes(raw)
    (copy / TITLES).unlink()
    with pytest.raises(UserError, match=f"{TITLES} does not exist"):
        MaxSimIndex.open(copy)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (SETTINGS, b"{", "is not JSON"),
        (SETTINGS, b"[]", "is of format None; this version reads 3"),
        (SETTINGS, b'{"format": 99}', "is of format 99"),
        (
            SETTINGS,
            b'{"format": 3, "similar_words": 0, "rescored": 9}',
            "similar_words is 0; expected a whole number, at least 1",
        ),
        (
            SETTINGS,
            b'{"format": 3, "similar_words": 4, "rescored": true}',
            "rescored is True; expected a whole number",
        ),
        (
            SETTINGS,
            b'{"format": 3, "similar_words": 4, "rescored": 9223372036854775808}',
            "rescored is 9223372036854775808; expected a whole number",
        ),
        (WORDS, b"no arrow", "is not an Arrow table"),
        (TITLES, b"", "is not an Arrow table"),
        (f"{ARRAYS}/docs.npy", b"\x80\x04K\x01.", "is not an array of numbers"),
    ],
)
def test_a_file_of_other_content_is_an_error_of_one_line(
    directory, tmp_path, name, content, message
):
    copy = shutil.copytree(directory, tmp_path / "i")
    (copy / name).write_bytes(content)
    write_checksums(copy, {*files_in(copy)} - {CHECKSUMS})
    with pytest.raises(UserError, match=message) as error:
        MaxSimIndex.open(copy)
    assert "\n" not in str(error.value)
    assert "Build it again" in str(error.value)


def problem_with(index, **changes):
    arrays = index.arrays._replace(**changes)
    maxsim = index.model.maxsim
    dimensions = maxsim.dimension, maxsim.text_dimension
    return array_problem(arrays, len(index.words), len(index), *dimensions)


def changed(array, position, value):
    copy = array.copy()
    copy[position] = value
    return copy


def test_arrays_that_do_not_fit_each_other_are_named(index):
    arrays = index.arrays
    assert problem_with(index) is None
    for name in Arrays._fields:
        array = getattr(arrays, name)
        with np.errstate(over="ignore"):
            half = array.astype(np.float16)
        assert problem_with(index, **{name: half})[0] == name
        if array.dtype.kind == "f":
            for value in (np.nan, np.inf):
                flat = changed(array.ravel(), -1, value).reshape(array.shape)
                assert problem_with(index, **{name: flat}) == (name, "a number is not finite")
    titles, words = arrays.titles, len(index.words)
    for name, limit in (
        ("word_titles", titles),
        ("pair_titles", titles),
        ("title_words", words),
        ("title_pairs", len(arrays.pair_keys)),
        ("docs", len(index)),
    ):
        for value in (-1, limit):
            changes = {name: changed(getattr(arrays, name), -1, value)}
            assert problem_with(index, **changes)[0] == name
        shorter = {name: getattr(arrays, name)[:-1]}
        assert problem_with(index, **shorter)[0] in (name, name.replace("docs", "doc_starts"),
            "word_starts", "pair_starts", "title_starts", "title_pair_starts")  # fmt: skip
    row = int(np.argmax(np.diff(arrays.word_starts)))  # a word of several titles
    start = arrays.word_starts[row]
    repeated = changed(arrays.word_titles, start + 1, arrays.word_titles[start])
    assert problem_with(index, word_titles=repeated) == (
        "word_titles",
        "the numbers of a list do not increase",
    )
    for name, value in (("query_weights", -1), ("pair_weights", 1e300), ("priors", 1e38)):
        problem = problem_with(index, **{name: changed(getattr(arrays, name), 0, value)})
        assert problem is not None
        assert problem[0] == name
        assert "out of range" in problem[1]
    assert problem_with(index, vectors=arrays.vectors * 1.1)[0] == "vectors"
    assert problem_with(index, text_vectors=arrays.text_vectors[:, :-1])[0] == "text_vectors"
    assert problem_with(index, text_scales=arrays.text_scales[:-1])[0] == "text_scales"
    twice = np.concatenate([arrays.docs[:1], arrays.docs[1:] * 0 + arrays.docs[0]])
    assert problem_with(index, docs=twice)[0] == "docs"
    title = int(np.argmax(np.diff(arrays.title_starts)))  # one that has words
    wrong_total = changed(arrays.inverse_totals, title, arrays.inverse_totals[title] * 2)
    assert problem_with(index, inverse_totals=wrong_total)[0] == "inverse_totals"
    titles_of_word = arrays.word_titles[: arrays.word_starts[1]].tolist()
    other = next(row for row in range(titles) if row not in titles_of_word)
    swapped = sorted({*titles_of_word[1:], other})
    swapped = np.append(swapped, arrays.word_titles[len(swapped) :]).astype(np.int32)
    assert problem_with(index, word_titles=swapped) == (
        "word_titles",
        "its titles differ from those of title_words",
    )
    falling = changed(arrays.word_starts, 1, arrays.word_starts[2] + 1)
    assert problem_with(index, word_starts=falling)[0] == "word_starts"
    assert problem_with(index, pair_keys=arrays.pair_keys[::-1])[0] == "pair_keys"
    assert problem_with(index, pair_keys=changed(arrays.pair_keys, -1, words**2))[0] == "pair_keys"
    assert problem_with(index, pair_keys=changed(arrays.pair_keys, 0, -1))[0] == "pair_keys"
    rows, similarities = arrays.similar_rows, arrays.similarities
    for value in (-1, words):
        changes = changed(rows, (-1, -1), value)
        assert problem_with(index, similar_rows=changes)[0] == "similar_rows"
    for received in (rows[:-1], rows[0]):
        problem = problem_with(index, similar_rows=received, similarities=received.astype("f4"))
        assert problem[0] == "similar_rows"
    assert problem_with(index, similarities=similarities[:, :-1])[0] == "similarities"
    for value in (-0.5, 1.5):
        changes = changed(similarities, (0, 0), value)
        assert problem_with(index, similarities=changes)[0] == "similarities"
    rising = similarities[:, ::-1]
    assert problem_with(index, similarities=rising) == (
        "similarities",
        "the numbers of a word increase",
    )
    assert problem_with(index, priors=arrays.priors[:-1])[0] == "title_starts"


def test_opening_and_searching_loads_no_tensorflow(directory):
    code = (
        "import sys; from dssm_tf.retrieval.opening import open_index;"
        "heavy = {'tensorflow', 'keras', 'bm25s', 'faiss', 'numba'} & set(sys.modules);"
        f"heavy or open_index({str(directory)!r}).search('red shoe');"
        "heavy |= {'tensorflow', 'keras', 'bm25s', 'faiss'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_search_works_if_no_directory_can_keep_the_machine_code(directory, index):
    code = (
        "import sys; from numba.core import caching\n"
        "def fail(locator): raise PermissionError('read-only file system')\n"
        "caching._CacheLocator.ensure_cache_path = fail\n"
        "from dssm_tf.retrieval.opening import open_index\n"
        "from dssm_tf.retrieval import maxsim_kernels\n"
        "assert maxsim_kernels.best_titles.stats.cache_path is None\n"
        f"hits = open_index({str(directory)!r}).search('shoez red').rankings['semantic']\n"
        "print(*[hit.doc_id for hit in hits])"
    )
    received = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert received == ids(hits_of(index, "shoez red"))


def test_settings_are_plain_json(directory):
    assert json.loads((directory / SETTINGS).read_text()) == {
        "format": 3,
        "score": "maxsim",
        "similar_words": 16,
        "rescored": 200,
    }


def test_a_saved_index_is_complete_or_not_there(index, model_directory, tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr("dssm_tf.retrieval.maxsim_index.write_checksums", fails)
    with pytest.raises(OSError, match="the disk is full"):
        index.save(tmp_path / "i", model_directory)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".writing"]
    monkeypatch.undo()
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "mine").touch()
    with pytest.raises(UserError, match="i exists already; choose another name, or remove it"):
        index.save(tmp_path / "i", model_directory)
    assert [path.name for path in (tmp_path / "i").iterdir()] == ["mine"]


def test_rules_and_remembered_clicks_of_the_model_are_saved(index, model_directory, tmp_path):
    rules = tmp_path / "rules.tsv"
    rules.write_text("pin\tred shoe\tblue lid\n", "utf-8")
    ruled = index.with_rules(read_rules(rules, index.model.vocabulary))
    ruled.save(tmp_path / "i", model_directory)
    opened = MaxSimIndex.open(tmp_path / "i")
    assert opened.model.search_rules == ruled.model.search_rules
    assert not (model_directory / "rules.tsv").exists()


def test_a_model_is_refused_with_the_command_that_builds_its_index(model_directory, tmp_path):
    message = "is a model, not an index; build its index: dssm index --model"
    with pytest.raises(UserError, match=message):
        open_index(model_directory)
    with pytest.raises(UserError, match="i does not exist; expected an index"):
        open_index(tmp_path / "i")
