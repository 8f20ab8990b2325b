import shutil
import subprocess
import sys

import numpy as np
import pytest

from dssm_tf.commands.search import show
from dssm_tf.common.checksums import CHECKSUMS
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.fusion import fuse
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.index import NOTHING_FOUND, SYSTEMS, Index
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle
from tests.file_size import limited_file_size
from tests.retrieval.conftest import TITLES

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def index(ranker):
    return Index.build(ranker, TITLES)


def ids(hits):
    return [hit.doc_id for hit in hits]


def test_a_title_searched_word_by_word_is_found_by_all(run_directory):
    found = Index.build(SemanticRanker.load(run_directory), TITLES).search("red hat", k=3)
    found = found.rankings
    assert list(found) == list(SYSTEMS) == ["hybrid", "bm25", "semantic"]
    assert [ids(one)[0] for one in found.values()] == ["d1"] * 3
    # Equal texts and shared towers: the cosine is 1. Best of both: 1.
    assert found["semantic"][0].score == pytest.approx(1.0, abs=1e-5)
    assert found["hybrid"][0].score == 1.0
    # "red" is in d4 too; no other title has a word of the query.
    assert ids(found["bm25"]) == ["d1", "d4"]


def test_scores_are_the_models_and_bm25s(index, ranker):
    titles = [entry.title for entry in TITLES]
    bm25 = BASELINES["bm25"]().fit([], titles)
    for query in ("red hat", "green box box"):
        found = index.search(query, k=5).rankings
        for name, system in (("semantic", ranker), ("bm25", bm25)):
            expected = dict(
                zip([one.doc_id for one in TITLES], system.score(query, titles), strict=True)
            )
            for hit in found[name]:
                assert hit.score == pytest.approx(expected[hit.doc_id], abs=1e-5)
    # Green Tie has nearly all clicks.
    assert ids(index.search("tie", k=1).rankings["semantic"]) == ["d3"]


def test_the_hybrid_has_the_weight_of_the_models_validation_queries(index, ranker):
    assert ranker.bm25_weight == 0.25
    found = index.search("red hat", k=5).rankings
    # All five titles are joined; those without a word have no BM25.
    meaning = {hit.doc_id: hit.score for hit in found["semantic"]}
    words = dict.fromkeys(meaning, 0.0) | {hit.doc_id: hit.score for hit in found["bm25"]}
    scores = (np.array([one[name] for name in meaning]) for one in (words, meaning))
    expected = dict(zip(meaning, fuse(*scores, 0.25), strict=True))
    assert {hit.doc_id: hit.score for hit in found["hybrid"]} == pytest.approx(expected, abs=1e-6)


def test_queries_that_mean_nothing_say_so(index):
    for query in ("", " ?! ", "\0", "zzyzx 日本 \udcff"):
        found = index.search(query)
        assert found.note == NOTHING_FOUND
        assert not any(found.rankings.values())
    # Trigrams the model knows, in a word that no title has: BM25 finds nothing.
    half = index.search("redbox", k=5).rankings
    assert half["bm25"] == []
    assert ids(half["semantic"]) == ids(half["hybrid"])
    assert len(half["hybrid"]) == 5


def test_words_that_the_model_does_not_know_are_found_by_bm25_alone(ranker):
    corpus = [CorpusTitle("d1", "Red Hat"), CorpusTitle("d2", "Xyq Tie"), CorpusTitle("d3", "Xyq")]
    found = Index.build(ranker, corpus).search("xyq").rankings
    assert found["semantic"] == []
    assert ids(found["hybrid"]) == ids(found["bm25"]) == ["d3", "d2"]
    assert {hit.similarity for hit in found["hybrid"]} == {0.0}


def test_equal_titles_tie_in_the_order_of_the_corpus(ranker):
    corpus = [CorpusTitle(f"x{i}", title) for i, title in enumerate(["Blue Box", "Red Hat"] * 3)]
    found = Index.build(ranker, corpus).search("red hat", k=3)
    for hits in found.rankings.values():
        assert ids(hits) == ["x1", "x3", "x5"]
        assert len({hit.score for hit in hits}) == 1


def test_a_fast_index_is_measured_on_every_other_word_of_titles(ranker, monkeypatch):
    asked, encode = [], ranker.encode_queries
    monkeypatch.setattr(
        ranker, "encode_queries", lambda texts, prior: asked.extend(texts) or encode(texts, prior)
    )
    corpus = [CorpusTitle("a", "Red Felt Hat"), CorpusTitle("b", "Blue Box")]
    assert "on 2 queries" in Index.build(ranker, corpus, "fast").nearest.measured
    assert asked == ["red hat", "blue"]
    monkeypatch.setattr("dssm_tf.retrieval.index._PROBES", 1)  # of many titles every nth
    assert "on 1 queries" in Index.build(ranker, corpus, "fast").nearest.measured


def test_titles_are_shown_as_they_are_written(ranker, capsys):
    """Brackets are no markup, and a control character moves no cursor."""
    corpus = [CorpusTitle("[d]", "Red [bold]Hat[/bold] \x1b[2J"), CorpusTitle("e", "Box")]
    show("red \x1b[2J", Index.build(ranker, corpus).search("red \x1b[2J"))
    shown = capsys.readouterr().out
    assert "Red [bold]Hat[/bold]" in shown
    assert "[d]" in shown
    assert "\x1b" not in shown


# --------------------------------------------------------------------------- files


def test_an_opened_index_finds_what_the_built_one_does(made, index):
    opened = Index.open(made)
    for query in ("red hat", "tie", "hats of felt box"):
        for name, found in opened.search(query, k=5).rankings.items():
            expected = index.search(query, k=5).rankings[name]
            assert ids(found) == ids(expected)
            assert [h.score for h in found] == pytest.approx([h.score for h in expected], abs=1e-6)
    assert opened.model.bm25_weight == 0.25


def test_a_changed_byte_is_told(made, tmp_path):
    copy = shutil.copytree(made, tmp_path / "i")
    for file in sorted(one for one in copy.rglob("*") if one.is_file() and one.name != CHECKSUMS):
        raw = file.read_bytes()
        file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        with pytest.raises(
            UserError, match=f"{file.name} is damaged or was changed|{file.name} is "
        ):
            Index.open(copy)
        file.write_bytes(raw)
    Index.open(copy)


def test_what_is_no_index_is_told(tmp_path):
    with pytest.raises(UserError, match=r"SHA256SUMS does not exist.* Make it again"):
        Index.open(tmp_path)


def test_opening_an_index_loads_no_tensorflow_and_the_room_nothing_heavy(made):
    code = (
        "import sys, dssm_tf.retrieval.index as m;"
        "heavy = {'tensorflow', 'keras', 'bm25s', 'faiss'} & set(sys.modules);"
        f"heavy or m.Index.open({str(made)!r}).search('red hat');"
        "heavy |= {'tensorflow', 'keras'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_index_that_does_not_fit_on_the_disk_says_so(ranker, tmp_path):
    titles = [CorpusTitle(str(row), f"red hat {row}") for row in range(400)]
    index = Index.build(ranker, titles)
    # The scores of BM25 are 8 bytes for each of 3 words in 400 titles: 9,600.
    index.titles = index.titles.slice(0, 1)
    with limited_file_size(6000), pytest.raises(UserError, match=r"words.* Is the disk full\?"):
        index.save(tmp_path)
