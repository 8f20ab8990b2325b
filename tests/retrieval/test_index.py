"""An index of vectors: scores, ties, notes and printed hits."""

import os
import shutil
import subprocess
import sys

import pytest

from dssm_tf.commands.search import show
from dssm_tf.common.checksums import CHECKSUMS
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.hits import NO_KNOWN_NGRAM_NOTE, SYSTEMS
from dssm_tf.retrieval.index import VectorIndex
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from dssm_tf.text.rules import FOLDED
from tests.file_size import limited_file_size
from tests.retrieval.conftest import TITLES

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def index(ranker):
    return VectorIndex.build(ranker, TITLES)


def ids(hits):
    return [hit.doc_id for hit in hits]


def test_a_query_equal_to_a_title_ranks_it_first_by_every_system(run_directory):
    index = VectorIndex.build(SemanticRanker.load(run_directory), TITLES)
    rankings = index.search("red hat", k=3).rankings
    assert list(rankings) == list(SYSTEMS) == ["semantic", "bm25"]
    assert [ids(hits)[0] for hits in rankings.values()] == ["d1"] * 2
    # Equal texts and shared towers: the cosine is 1.
    assert rankings["semantic"][0].score == pytest.approx(1.0, abs=1e-5)
    # "red" is in d4 too; no other title has a word of the query.
    assert ids(rankings["bm25"]) == ["d1", "d4"]


def test_scores_equal_those_of_the_model_and_of_bm25(index, ranker):
    titles = [entry.title for entry in TITLES]
    bm25 = BASELINES["bm25"]().fit([], titles)
    for query in ("red hat", "green box box"):
        rankings = index.search(query, k=5).rankings
        for name, system in (("semantic", ranker), ("bm25", bm25)):
            doc_ids = [entry.doc_id for entry in TITLES]
            expected = dict(zip(doc_ids, system.score(query, titles), strict=True))
            for hit in rankings[name]:
                assert hit.rank_value == pytest.approx(expected[hit.doc_id], abs=1e-5)
    # Green Tie has nearly all clicks.
    assert ids(index.search("tie", k=1).rankings["semantic"]) == ["d3"]


def test_queries_without_a_known_word_have_no_results_and_a_note(index):
    for query in ("", " ?! ", "\0", "zzyzx 日本 \udcff"):
        result = index.search(query)
        assert result.note == NO_KNOWN_NGRAM_NOTE
        assert not any(result.rankings.values())
    # A word of known trigrams that no title has: BM25 has no result.
    rankings = index.search("redbox", k=5).rankings
    assert rankings["bm25"] == []
    assert len(rankings["semantic"]) == 5


def test_words_unknown_to_the_model_are_ranked_by_bm25_only(ranker):
    corpus = [CorpusTitle("d1", "Red Hat"), CorpusTitle("d2", "Xyq Tie"), CorpusTitle("d3", "Xyq")]
    rankings = VectorIndex.build(ranker, corpus).search("xyq").rankings
    assert rankings["semantic"] == []
    assert ids(rankings["bm25"]) == ["d3", "d2"]
    assert {hit.similarity for hit in rankings["bm25"]} == {0.0}


def test_equal_titles_tie_in_the_order_of_the_corpus(ranker):
    corpus = [CorpusTitle(f"x{i}", title) for i, title in enumerate(["Blue Box", "Red Hat"] * 3)]
    result = VectorIndex.build(ranker, corpus).search("red hat", k=3)
    for hits in result.rankings.values():
        assert ids(hits) == ["x1", "x3", "x5"]
        assert len({hit.rank_value for hit in hits}) == 1


def test_a_fast_index_is_measured_with_queries_of_every_other_title_word(ranker, monkeypatch):
    encoded, encode = [], ranker.encode_queries
    monkeypatch.setattr(
        ranker, "encode_queries", lambda texts, prior: encoded.extend(texts) or encode(texts, prior)
    )
    corpus = [CorpusTitle("a", "Red Felt Hat"), CorpusTitle("b", "Blue Box")]
    assert "on 2 queries" in VectorIndex.build(ranker, corpus, "fast").nearest.summary
    assert encoded == ["red hat", "blue"]
    monkeypatch.setattr("dssm_tf.retrieval.index._PROBES", 1)  # then every second title
    assert "on 1 queries" in VectorIndex.build(ranker, corpus, "fast").nearest.summary


def test_brackets_and_control_characters_of_titles_are_printed_safely(ranker, capsys):
    corpus = [CorpusTitle("[d]", "Red [bold]Hat[/bold] \x1b[2J"), CorpusTitle("e", "Box")]
    show("red \x1b[2J", VectorIndex.build(ranker, corpus).search("red \x1b[2J"), FOLDED.words)
    output = capsys.readouterr().out
    assert "Red [bold]Hat[/bold]" in output
    assert "[d]" in output
    assert "\x1b" not in output


# --------------------------------------------------------------------------- files


def test_an_opened_index_returns_the_same_results_as_the_built_one(index_directory, index):
    opened = VectorIndex.open(index_directory)
    for query in ("red hat", "tie", "hats of felt box"):
        for name, hits in opened.search(query, k=5).rankings.items():
            expected = index.search(query, k=5).rankings[name]
            assert ids(hits) == ids(expected)
            for hit, other in zip(hits, expected, strict=True):
                assert hit[2:] == pytest.approx(other[2:], abs=1e-6)
    assert opened.model.cutoff == -0.25


def test_a_changed_byte_is_an_error(index_directory, tmp_path):
    copy = shutil.copytree(index_directory, tmp_path / "i")
    for file in sorted(p for p in copy.rglob("*") if p.is_file() and p.name != CHECKSUMS):
        raw = file.read_bytes()
        file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
        with pytest.raises(
            UserError, match=f"{file.name} is damaged or was changed|{file.name} is "
        ):
            VectorIndex.open(copy)
        file.write_bytes(raw)
    VectorIndex.open(copy)


def test_a_directory_that_is_not_an_index_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"is not an index; expected one that `dssm index` wrote"):
        VectorIndex.open(tmp_path)
    (tmp_path / "titles.arrow").touch()  # an index whose copy did not finish
    with pytest.raises(UserError, match=r"SHA256SUMS does not exist.* Build it again"):
        VectorIndex.open(tmp_path)


def test_importing_the_module_loads_no_heavy_library_and_opening_an_index_no_tensorflow(
    index_directory,
):
    code = (
        "import sys, dssm_tf.retrieval.index as m;"
        "heavy = {'tensorflow', 'keras', 'bm25s', 'faiss'} & set(sys.modules);"
        f"heavy or m.VectorIndex.open({str(index_directory)!r}).search('red hat');"
        "heavy |= {'tensorflow', 'keras'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_full_disk_is_an_error_that_names_the_cause(ranker, tmp_path):
    titles = [CorpusTitle(str(row), f"red hat {row}") for row in range(400)]
    index = VectorIndex.build(ranker, titles)
    # BM25 scores need 8 bytes for each of 3 words in 400 titles: 9,600 bytes.
    index.title_table = index.title_table.slice(0, 1)
    with limited_file_size(6000), pytest.raises(UserError, match=r"words.* Is the disk full\?"):
        index.write(tmp_path)


@pytest.mark.long
def test_two_builds_in_processes_with_other_hash_seeds_have_equal_bytes(run_with_prior, tmp_path):
    write_corpus(tmp_path / "corpus.tsv", TITLES)
    program = (
        "import sys; from pathlib import Path; from dssm_tf.commands.index import index; "
        "index(model=Path(sys.argv[1]), corpus=Path(sys.argv[2]), out=Path(sys.argv[3]))"
    )
    files = []
    for seed in ("1", "2"):
        arguments = [run_with_prior, tmp_path / "corpus.tsv", tmp_path / seed]
        subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
        paths = sorted(path for path in (tmp_path / seed).rglob("*") if path.is_file())
        files.append({path.relative_to(tmp_path / seed): path.read_bytes() for path in paths})
    assert files[0] == files[1]
