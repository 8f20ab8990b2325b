"""The index of a maxsim model: the model's scores, from files, without TensorFlow."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.ranking import tie_key
from dssm_tf.retrieval.hits import NO_WORDS, NOTHING_SIMILAR, POOR_RESULTS
from dssm_tf.retrieval.maxsim_files import ARRAYS, SETTINGS, WORDS, Arrays, array_problem
from dssm_tf.retrieval.maxsim_index import TITLES as TABLE
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.tables.judgments import CorpusTitle
from tests.runtime.maxsim_models import (
    SETTINGS as MODEL_SETTINGS,
)
from tests.runtime.maxsim_models import (
    TITLES,
    example_model,
    oracle,
    random_model,
    write_compact_model,
)

pytest.importorskip("numba")

CLICKS = {"red shoe red box": -0.5, "shoe box": -1.5}
CORPUS = [
    CorpusTitle(f"d{row}", title) for row, title in enumerate([*TITLES, "RED shoe, red: box"])
]
QUERIES = ["red shoe", "Shoe BOX!", "blue lid", "runing shoez", "walla walla", "虎", "box red of"]
WORDS_OF_TEXTS = ["red", "reds", "shoe", "box", "lid", "ed", "blue", "虎", "qqq", "x"]
_TEXTS = st.lists(st.sampled_from(WORDS_OF_TEXTS), max_size=6).map(" ".join)


def ranker_of(model, weighted_priors=lambda titles: np.zeros(len(titles), np.float32)):
    return MaxSimRanker(MODEL_SETTINGS, model, weighted_priors)


def prior_by_length(titles):
    return -0.01 * np.array([len(title) for title in titles], np.float32)


def corpus_of(titles):
    return [CorpusTitle(f"d{row}", title) for row, title in enumerate(titles)]


def hits_of(index, query, k=10, **options):
    return index.search(query, k, **options).rankings["semantic"]


def ids(hits):
    return [hit.doc_id for hit in hits]


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "1"
    # Each pair of neighboring words is in two titles, so all are kept.
    return write_compact_model(random_model([*TITLES, *TITLES]), folder, CLICKS)


@pytest.fixture(scope="module")
def ranker(model_directory) -> MaxSimRanker:
    ranker = load(model_directory)
    assert isinstance(ranker, MaxSimRanker)
    return ranker


@pytest.fixture(scope="module")
def index(ranker) -> MaxSimIndex:
    return MaxSimIndex.build(ranker, CORPUS)


@pytest.fixture(scope="module")
def directory(index, model_directory, tmp_path_factory) -> Path:
    """A saved index. Tests must not change it."""
    folder = tmp_path_factory.mktemp("index")
    shutil.copytree(model_directory, folder / "model")
    index.save(folder)
    return folder


# --------------------------------------------------------------------------- scores and order


@settings(max_examples=60, deadline=None)
@given(
    titles=st.lists(_TEXTS, min_size=1, max_size=12).filter(any),
    query=_TEXTS,
    seed=st.integers(0, 99),
    threshold=st.sampled_from([0.0, 0.2, 0.7]),
    allowed=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_with_all_similar_words_a_search_equals_the_formula_for_each_title(
    titles, query, seed, threshold, allowed
):
    model = random_model([*titles, " ".join(WORDS_OF_TEXTS)], seed=seed, threshold=threshold)
    words = [model.vocabulary.words(title) for title in titles]
    expected, query_words = oracle(model, [*words, query.split()]), query.split()
    priors = prior_by_length(titles)
    index = MaxSimIndex.build(ranker_of(model, prior_by_length), corpus_of(titles), None)
    received = hits_of(index, query, k=20, allowed=index.filter(allowed[: len(titles)]))
    scores = {
        f"d{row}": expected.score(query_words, words[row]) + priors[row]
        for row in range(len(titles))
        if allowed[row] and expected.score(query_words, words[row]) > 1e-6
    }
    returned = {hit.doc_id: hit.score for hit in received}
    # A title whose only similarity is within rounding of the threshold may be there or not.
    for doc_id in {*scores} ^ {*returned}:
        row = int(doc_id[1:])
        assert allowed[row]
        assert expected.score(query_words, words[row]) == approx(0, abs=1e-5)
    assert {name: returned[name] for name in scores if name in returned} == approx(
        {name: scores[name] for name in scores if name in returned}, abs=2e-5
    )
    assert [hit.score for hit in received] == sorted(returned.values(), reverse=True)


@pytest.mark.parametrize("similar_words", [1, 16, None])
def test_scores_equal_the_model_s(ranker, similar_words):
    index = MaxSimIndex.build(ranker, CORPUS, similar_words)
    titles = {entry.doc_id: entry.title for entry in CORPUS}
    for query in QUERIES:
        hits = hits_of(index, query, k=20)
        assert hits
        expected = ranker.score(query, [titles[hit.doc_id] for hit in hits])
        assert [hit.score for hit in hits] == approx(expected, abs=1e-6)
        similarities = ranker.similarity_matrix([query], [titles[hit.doc_id] for hit in hits])[0]
        assert [hit.score - hit.prior for hit in hits] == approx(similarities, abs=1e-6)
        for hit in hits:
            assert hit.matches.score + hit.prior == approx(hit.score, abs=1e-5)


def test_only_the_rescored_titles_need_the_full_formula(ranker):
    index = MaxSimIndex.build(ranker, CORPUS, similar_words=1, rescored=1)
    all_titles = MaxSimIndex.build(ranker, CORPUS)
    for query in QUERIES:
        (first,) = hits_of(index, query, k=1)
        expected = {hit.doc_id: hit.score for hit in hits_of(all_titles, query, k=20)}
        assert first.score == expected[first.doc_id]
        # As many titles are rescored as are asked for.
        assert len(hits_of(index, query, k=3)) >= min(3, len(hits_of(index, query, k=20)))


def test_the_prior_decides_between_titles_of_equal_words():
    def priors(titles):
        return np.array([0.5 if title == "shoe red" else 0.0 for title in titles], np.float32)

    model = random_model()
    model.frequencies.pairs.clear()
    corpus = corpus_of(["red shoe", "shoe red"])
    without = hits_of(MaxSimIndex.build(ranker_of(model), corpus), "shoe")
    assert without[0].score == without[1].score
    first, second = hits_of(MaxSimIndex.build(ranker_of(model, priors), corpus), "shoe")
    assert (first.doc_id, second.doc_id) == ("d1", "d0")
    assert first.score == approx(second.score + 0.5)
    assert (first.prior, second.prior) == (0.5, 0.0)


def test_ties_are_in_the_order_of_tie_key_and_equal_titles_in_that_of_the_corpus():
    model = random_model()
    model.frequencies.pairs.clear()
    titles = ["red shoe", "shoe, red", "Red Shoe!", "shoe red red"]
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles))
    hits = hits_of(index, "red shoe")
    assert len({hit.score for hit in hits}) == 1
    keys = ["red shoe", "shoe red", "red shoe", "shoe red red"]
    assert ids(hits) == [f"d{row}" for row in sorted(range(4), key=lambda row: tie_key(keys[row]))]
    assert ids(hits_of(index, "red shoe", k=2)) == ids(hits)[:2]
    reverse = MaxSimIndex.build(ranker_of(model), corpus_of(titles[::-1]))
    assert [hit.score for hit in hits_of(reverse, "red shoe")] == [hit.score for hit in hits]


@pytest.mark.parametrize("rescored", [1, 4, 11])
def test_of_more_ties_than_are_rescored_the_first_ones_are_returned(rescored):
    model = random_model()
    model.frequencies.pairs.clear()
    orders = itertools.product(["red", "shoe"], repeat=5)
    titles = [" ".join(words) for words in orders if len({*words}) == 2]  # 30 of the same words
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles), rescored=rescored)
    hits = hits_of(index, "red shoes", k=rescored)
    assert [hit.title for hit in hits] == sorted(titles, key=tie_key)[:rescored]


def test_a_filter_leaves_the_scores_of_the_other_entries(index):
    everything = hits_of(index, "red shoe", k=20)
    for keep in (ids(everything)[1::2], ["d1"], []):
        allowed = index.filter([entry.doc_id in keep for entry in CORPUS])
        expected = [hit for hit in everything if hit.doc_id in keep]
        assert hits_of(index, "red shoe", k=20, allowed=allowed) == expected
    with pytest.raises(ValueError, match=r"shape \(2,\); expected a value for each of the 11"):
        index.filter([True, False])


def test_many_titles_are_ranked_as_all_titles_are_scored():
    # More titles than two blocks of the compiled loop, and more candidates than are kept.
    rng = np.random.default_rng(0)
    words = np.array(["red", "shoe", "box", "lid", "blue", "green", "men", "running", "onion"])
    titles = [" ".join(rng.choice(words, 4)) + f" {row}" for row in range(20_000)]
    model = random_model([*titles[:50], " ".join(words)], dimension=8)
    ranker = ranker_of(model, prior_by_length)
    index = MaxSimIndex.build(ranker, corpus_of(titles), None, rescored=300)
    for query in ("red shoe", "boxx of onions", "green running lid 77"):
        scores = np.sort(ranker.score(query, tuple(titles)))[::-1]
        assert [hit.score for hit in hits_of(index, query, k=10)] == approx(scores[:10], abs=1e-6)


# --------------------------------------------------------------------------- unusual texts


def test_a_query_without_words_finds_nothing_and_says_so(index):
    for query in ("", " ?! ", "\0"):
        result = index.search(query)
        assert (result.note, result.rankings) == (NO_WORDS, {"semantic": []})


def test_words_of_unknown_letters_find_nothing_and_say_so(index):
    result = index.search("日本 \udcff")
    assert (result.note, result.rankings) == (NOTHING_SIMILAR, {"semantic": []})


def test_a_pair_of_words_without_letter_ngrams_matches():
    titles = ["zz qq", "qq zz", "red zz qq"]
    model = random_model(["red shoe"])
    frequencies = type(model.frequencies).from_titles([title.split() for title in titles])
    model.frequencies = frequencies
    index = MaxSimIndex.build(ranker_of(model), corpus_of(titles))
    expected = oracle(model, [title.split() for title in titles])
    received = {hit.doc_id: hit.score for hit in hits_of(index, "zz qq")}
    assert received == approx(
        {f"d{row}": expected.score(["zz", "qq"], titles[row].split()) for row in (0, 2)}, abs=1e-6
    )


def test_titles_without_words_are_never_found(index):
    empty = {entry.doc_id for entry in CORPUS if not entry.title}
    for query in QUERIES:
        assert empty.isdisjoint(ids(hits_of(index, query, k=20)))


def test_a_corpus_without_words_is_an_error(ranker):
    with pytest.raises(UserError, match="None of the 2 titles has a word"):
        MaxSimIndex.build(ranker, corpus_of(["", "?!"]))


def test_poor_results_have_a_note(ranker, index):
    assert ranker.cutoff == 0.1
    assert index.search("red shoe").note == ""
    ranker.cutoff = 2.0
    try:
        assert index.search("red shoe").note == ""  # a title has all words
        assert index.search("reds shoes").note == POOR_RESULTS
    finally:
        ranker.cutoff = 0.1


def test_the_parts_of_a_score_are_named():
    titles = ["red shoe box lid", "box of shoes"]
    index = MaxSimIndex.build(ranker_of(example_model()), corpus_of(titles))
    (hit, other) = hits_of(index, "crimson shoe box")
    # The worked example of docs/maxsim.md: 0.896 + 0.3 * 0.663; the pair adds
    # 0.293 / 4.119 + 0.3 * 0.293 / 4.796 = 0.09.
    assert hit.score == approx(1.095, abs=5e-4)
    # Words of the query: (1.718 * .75 + .950 + 1.159) / 4.119 without the pair, .825; of the title
    # .3 * (1.037 * .75 + .950 + 1.159) / 4.796 = .181.
    assert hit.score_breakdown() == (
        "score 1.095, words of the query +0.825, words of the title +0.181, pairs +0.089, "
        "crimson → red .75"
    )
    parts = hit.title_parts("crimson shoe box", str.split)
    assert parts == [("red", True), ("shoe", True), ("box", True), ("lid", False)]
    assert "shoe unmatched" in other.score_breakdown()


# --------------------------------------------------------------------------- similar words


@pytest.mark.parametrize("limit", [1, 3, 16, 1000])
def test_the_table_has_the_similar_words_of_each_word(ranker, limit):
    index = MaxSimIndex.build(ranker, CORPUS, limit)
    table = index.arrays.similar_rows
    assert table.shape == (len(index.words), min(limit, len(index.words)))
    similar = SimilarWords(ranker.maxsim, index.words, limit)
    for word, row, similarities in zip(index.words, table, index.arrays.similarities, strict=True):
        expected_rows, expected = similar.of(word)
        assert row[: len(expected_rows)].tolist() == expected_rows.tolist()
        np.testing.assert_array_equal(similarities[: len(expected)], expected)
        assert not similarities[len(expected) :].any()


def test_only_words_that_no_title_has_are_compared_with_all_words(ranker, monkeypatch):
    index, expected = (MaxSimIndex.build(ranker, CORPUS) for _ in range(2))
    compared = []
    monkeypatch.setattr(
        index._similar,
        "of_vector",
        lambda word, vector: compared.append(word) or expected._similar.of_vector(word, vector),
    )
    for query in ("red shoe", "shoez red", "box of lids"):
        assert hits_of(index, query) == hits_of(expected, query)
    assert compared == [
        word for word in ("red", "shoe", "shoez", "box", "of", "lids") if word not in index.words
    ]
    assert "shoez" in compared
    assert "red" not in compared


def test_several_threads_can_search_at_once(index):
    expected = {query: hits_of(index, query) for query in QUERIES}
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda query: (query, hits_of(index, query)), QUERIES * 50))
    for query, hits in results:
        assert hits == expected[query]


# --------------------------------------------------------------------------- files


def test_an_opened_index_returns_the_same_results_as_the_built_one(directory, index):
    opened = MaxSimIndex.open(directory)
    assert (len(opened), opened.summary) == (len(index), index.summary)
    for query in QUERIES:
        for hit, expected in zip(hits_of(opened, query), hits_of(index, query), strict=True):
            assert hit.doc_id == expected.doc_id
            assert hit.score == expected.score
            assert hit.score_breakdown() == expected.score_breakdown()


def test_two_builds_have_equal_bytes(directory, ranker, model_directory, tmp_path):
    shutil.copytree(model_directory, tmp_path / "model")
    MaxSimIndex.build(ranker, CORPUS).save(tmp_path)
    for name in files_in(directory):
        assert (tmp_path / name).read_bytes() == (directory / name).read_bytes(), name


def test_the_settings_are_part_of_the_index(ranker, model_directory, tmp_path):
    shutil.copytree(model_directory, tmp_path / "model")
    MaxSimIndex.build(ranker, CORPUS, similar_words=3, rescored=7).save(tmp_path)
    opened = MaxSimIndex.open(tmp_path)
    assert (opened.similar_words, opened.rescored) == (3, 7)
    with pytest.raises(UserError, match="similar_words is 0; expected at least 1"):
        MaxSimIndex.build(ranker, CORPUS, similar_words=0)


def test_a_changed_byte_is_an_error(directory, tmp_path):
    copy = shutil.copytree(directory, tmp_path / "i")
    for name in sorted({*files_in(copy)} - {CHECKSUMS, f"model/{CHECKSUMS}"}):
        raw = (copy / name).read_bytes()
        (copy / name).write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        with pytest.raises(UserError, match=rf"{Path(name).name} is damaged or was changed"):
            MaxSimIndex.open(copy)
        (copy / name).write_bytes(raw)
    (copy / TABLE).unlink()
    with pytest.raises(UserError, match=f"{TABLE} does not exist"):
        MaxSimIndex.open(copy)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (SETTINGS, b"{", "is not JSON"),
        (SETTINGS, b"[]", "is of format None; this version reads 2"),
        (SETTINGS, b'{"format": 99}', "is of format 99"),
        (
            SETTINGS,
            b'{"format": 2, "similar_words": 0, "rescored": 9}',
            "similar_words is 0; expected a whole number, at least 1",
        ),
        (
            SETTINGS,
            b'{"format": 2, "similar_words": 4, "rescored": true}',
            "rescored is True; expected a whole number",
        ),
        (WORDS, b"no arrow", "is not an Arrow table"),
        (TABLE, b"", "is not an Arrow table"),
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
    dimension = index.model.maxsim.dimension
    return array_problem(arrays, len(index.words), len(index), dimension)


def changed(array, position, value):
    copy = array.copy()
    copy[position] = value
    return copy


def test_arrays_that_do_not_fit_each_other_are_named(index):
    arrays = index.arrays
    assert problem_with(index) is None
    for name in Arrays._fields:
        array = getattr(arrays, name)
        assert problem_with(index, **{name: array.astype(np.float16)})[0] == name
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
        "format": 2,
        "score": "maxsim",
        "similar_words": 16,
        "rescored": 200,
    }
