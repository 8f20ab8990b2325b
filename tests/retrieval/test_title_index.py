import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from dssm_tf.commands.embed import embed_command
from dssm_tf.commands.index import change_index_command, index_command
from dssm_tf.commands.search import search_command
from dssm_tf.common.checksums import CHECKSUMS, QUICK, check_files, fingerprint, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.approximate import SETTINGS
from dssm_tf.retrieval.searcher import Searcher
from dssm_tf.retrieval.title_index import Settings, TitleIndex
from dssm_tf.tables.judgments import CorpusTitle, read_corpus, write_corpus
from tests.retrieval.conftest import CORPUS, DIMENSION
from tests.rounding import rounding

SAME = rounding(24, 2)
TITLES = [CorpusTitle(*row) for row in CORPUS]
MANY = [
    CorpusTitle(f"m{i}", f"{a} {b} {c}")
    for i, (a, b, c) in enumerate(
        (a, b, c)
        for a in ["red", "blue", "green", "felt", "hats", "tie"]
        for b in ["box", "hat", "tie", "of", "green", "redder"]
        for c in ["felt", "hats", "boxes", "ties", "bluer", "greenhat"]
    )
]
HYBRID = {
    "members": ["bm25", "model", "prior"],
    "kind": "linear",
    "values": {"scale": "min-max", "weights": [0.3, 0.6, 0.1]},
    "depth": 50,
    "parameters": [{"k1": 2.0, "b": 0.5}, {}, {}],
}


@pytest.fixture
def made(run_with_prior, corpus_file, tmp_path, console):
    index_command(run_with_prior, corpus_file, tmp_path / "index", console=console)
    return tmp_path / "index"


def hits(model, index, query="red hat"):
    found = Searcher(model, index).search(query, k=5)
    return {name: [(hit.doc_id, hit.score) for hit in one.hits] for name, one in found.items()}


def same(found, expected):
    assert found.keys() == expected.keys()
    for name, pairs in expected.items():
        assert [one for one, _ in found[name]] == [one for one, _ in pairs]
        assert [one for _, one in found[name]] == pytest.approx([one for _, one in pairs], abs=1e-5)


def test_an_index_is_searched_as_the_model_ranks(run_with_prior, ranker, made):
    index = TitleIndex.open(made, fingerprint(run_with_prior))
    found = Searcher(ranker, index).search("red hat", k=5)["semantic"].hits
    scores = dict(zip(TITLES, ranker.score("red hat", [one.title for one in TITLES]), strict=True))
    assert {CorpusTitle(one.doc_id, one.title): one.score for one in found} == pytest.approx(
        scores, abs=SAME
    )
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    # Green Tie has nearly all clicks, 11.5 nats times .02 before titles that have none.
    assert found[0].doc_id != "d3"
    assert index.vectors[2, -1] - index.vectors[1, -1] == pytest.approx(0.02 * 11.5, abs=0.01)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.shape == (5, DIMENSION + 1)


@pytest.mark.parametrize("kind", ["exact", "flat", *SETTINGS])
def test_a_saved_index_finds_what_it_found_in_memory(ranker, run_with_prior, tmp_path, kind):
    if kind != "exact":
        pytest.importorskip("faiss")
    index = TitleIndex.build(ranker, MANY, Settings(kind))
    index.save(tmp_path / "i", "f")
    opened = TitleIndex.open(tmp_path / "i", "f")
    assert list(opened.corpus) == MANY
    assert opened.corpus[-1] == MANY[-1]
    assert opened.corpus[2:4] == MANY[2:4]
    assert opened.measured == index.measured
    assert opened.settings == index.settings
    assert hits(ranker, opened) == hits(ranker, index)


def test_a_hybrid_is_kept_with_the_index(ranker, run_with_prior, tmp_path, corpus_file, console):
    path = tmp_path / "hybrid.json"
    path.write_text(json.dumps(HYBRID))
    index_command(run_with_prior, corpus_file, tmp_path / "i", hybrid=path, console=console)
    index = TitleIndex.open(tmp_path / "i")
    # The prior is a member of its own, so the vectors are without it.
    expected = TitleIndex.build(ranker, TITLES, Settings(prior=False, hybrid=index.settings.hybrid))
    same(hits(ranker, index), hits(ranker, expected))
    assert index.settings.hybrid.values["weights"] == [0.3, 0.6, 0.1]
    plain = hits(ranker, TitleIndex.build(ranker, TITLES))
    # Both the fused scores and BM25's, by its k1, are others.
    assert hits(ranker, index)["hybrid"] != plain["hybrid"]
    assert hits(ranker, index)["bm25"] != plain["bm25"]


def test_an_index_of_cosines_ranks_by_cosine(
    ranker, run_with_prior, corpus_file, tmp_path, console
):
    index_command(run_with_prior, corpus_file, tmp_path / "i", cosine=True, console=console)
    index = TitleIndex.open(tmp_path / "i")
    assert index.vectors.shape == (5, DIMENSION)
    by_score = dict(hits(ranker, index)["semantic"])
    vectors = ranker.encode_titles([one.title for one in TITLES])
    cosines = vectors @ ranker.encode_queries(["red hat"])[0]
    wanted = {one.doc_id: cosine for one, cosine in zip(TITLES, cosines, strict=True)}
    assert by_score == pytest.approx(wanted, abs=SAME)
    assert "ranked by cosine; exact: all titles are compared" in console.file.getvalue()


def test_titles_are_added_and_taken_away(ranker, run_with_prior, made, tmp_path, console):
    write_corpus(tmp_path / "more.tsv", [CorpusTitle("d2", "Blue Tie"), CorpusTitle("d9", "Hats")])
    (tmp_path / "gone.txt").write_text("d2\nd4\n")
    change_index_command(
        run_with_prior, made, tmp_path / "more.tsv", tmp_path / "gone.txt", console=console
    )
    changed = TitleIndex.open(made, fingerprint(run_with_prior))
    corpus = [
        TITLES[0],
        TITLES[2],
        TITLES[4],
        CorpusTitle("d2", "Blue Tie"),
        CorpusTitle("d9", "Hats"),
    ]
    assert list(changed.corpus) == corpus
    anew = TitleIndex.build(ranker, corpus)
    for query in ("red hat", "blue tie", "hats"):
        same(hits(ranker, changed, query), hits(ranker, anew, query))
    assert "5 titles" in console.file.getvalue()


def test_only_added_titles_are_encoded(ranker, monkeypatch):
    index = TitleIndex.build(ranker, TITLES)
    encoded = []

    class Watched:
        def encode_titles(self, titles, prior=False):
            encoded.extend(titles)
            return ranker.encode_titles(titles, prior)

        encode_queries = staticmethod(ranker.encode_queries)

    index.changed(Watched(), [CorpusTitle("n", "felt")], ["d1"])
    assert encoded == ["felt"]


def test_a_set_of_ids_limits_what_is_found(ranker, made, run_with_prior, tmp_path):
    index = TitleIndex.open(made)
    rows = index.rows(["d4", "d2"])
    assert rows.tolist() == [1, 3]
    for name, found in Searcher(ranker, index).search("red hat", k=5, rows=rows).items():
        # BM25 finds the word in d4 alone.
        wanted = {"d4"} if name == "bm25" else {"d2", "d4"}
        assert {hit.doc_id for hit in found.hits} == wanted
    (tmp_path / "only.txt").write_text("d4\n\nd2\n")
    console = Console(file=io.StringIO(), width=120)
    search_command(
        run_with_prior, None, ["red hat"], index=made, only=tmp_path / "only.txt", console=console
    )
    assert "Red Box" in console.file.getvalue()
    assert "Red Hat" not in console.file.getvalue()


def test_a_filter_holds_for_a_chosen_hybrid(ranker, tmp_path):
    from dssm_tf.retrieval.hybrid import ChosenHybrid

    (tmp_path / "h.json").write_text(json.dumps(HYBRID))
    settings = Settings(hybrid=ChosenHybrid.load(tmp_path / "h.json"))
    index = TitleIndex.build(ranker, TITLES, settings)
    found = Searcher(ranker, index).search("red hat", k=5, rows=index.rows(["d4", "d2"]))
    assert {hit.doc_id for hit in found["hybrid"].hits} == {"d2", "d4"}


def test_the_command_searches_an_index_without_the_corpus(run_with_prior, made):
    console = Console(file=io.StringIO(), width=120)
    search_command(run_with_prior, None, ["red hat"], k=2, index=made, console=console)
    assert "d1" in console.file.getvalue()


def test_parquet_of_embed_makes_the_same_index(
    ranker, run_with_prior, corpus_file, tmp_path, console
):
    embed_command(run_with_prior, corpus_file, tmp_path / "v.parquet", console=console)
    index_command(
        run_with_prior, None, tmp_path / "i", vectors=[str(tmp_path / "v*.parquet")],
        console=console,
    )  # fmt: skip
    same(
        hits(ranker, TitleIndex.open(tmp_path / "i")),
        hits(ranker, TitleIndex.build(ranker, TITLES)),
    )


def test_one_title_is_a_corpus(run_with_prior, tmp_path, console, ranker):
    write_corpus(tmp_path / "c.tsv", [CorpusTitle("only", "Red Hat")])
    for kind in ("auto", "ivf"):
        if kind != "auto":
            pytest.importorskip("faiss")
        index_command(
            run_with_prior, tmp_path / "c.tsv", tmp_path / kind, kind=kind, console=console
        )
        assert hits(ranker, TitleIndex.open(tmp_path / kind))["hybrid"][0][0] == "only"


def damage(index, name):
    path = index / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("name", ["vectors.npy", "titles.arrow", "index.json", "word_weights.npy"])
def test_a_changed_byte_is_told(run_with_prior, made, name):
    damage(made, name)
    with pytest.raises(UserError, match=r"is damaged or was changed: .* Make it again: dssm index"):
        TitleIndex.open(made)


def test_an_index_without_quick_checksums_is_compared_by_the_others(made):
    check_files(made, None, "")  # which `sha256sum -c` reads
    (made / QUICK).unlink()
    TitleIndex.open(made)
    damage(made, "vectors.npy")
    with pytest.raises(UserError, match=r"is damaged or was changed: .* SHA256SUMS"):
        TitleIndex.open(made)


def test_an_index_of_another_model_is_refused(run_directory, run_with_prior, made, console):
    with pytest.raises(UserError, match="was made with another model") as caught:
        search_command(run_directory, None, ["red"], index=made, console=console)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="was made with another model"):
        change_index_command(run_directory, made, remove=made / "none.txt", console=console)


def test_a_model_without_a_fingerprint_is_known_by_its_vectors(run_directory, ranker, made):
    index = TitleIndex.open(made)
    index.check_model(ranker)
    # The same towers; the prior has no weight, so the last dimension differs.
    with pytest.raises(UserError, match="title 'd1' is not what this model makes"):
        index.check_model(SemanticRanker.load(run_directory))


def test_a_newer_format_is_told(made):
    about = json.loads((made / "index.json").read_text())
    (made / "index.json").write_text(json.dumps(about | {"format": 2}))
    for manifest in (QUICK, CHECKSUMS):
        names = [one.name for one in made.iterdir() if one.name not in (QUICK, CHECKSUMS)]
        write_checksums(made, names, manifest)
    with pytest.raises(UserError, match="format is 2; this version reads 1"):
        TitleIndex.open(made)


def test_what_cannot_be_indexed_is_one_line_and_leaves_nothing(
    run_with_prior, tmp_path, console, corpus_file
):
    def told(match, **given):
        arguments = {"corpus": corpus_file, "out": tmp_path / "i", **given}
        with pytest.raises(UserError, match=match) as caught:
            index_command(run_with_prior, console=console, **arguments)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "i").exists()

    def corpus(text):
        path = tmp_path / "c.tsv"
        path.write_text(text)
        return path

    told("has a header and no title", corpus=corpus("doc_id\ttitle\n"))
    told("doc_id 'a' stands on line 2", corpus=corpus("doc_id\ttitle\na\tb\na\tc\n"))
    told("no word in them", corpus=corpus("doc_id\ttitle\na\t?!\n"))
    told("either --corpus or --vectors", corpus=None)
    told("--recall 0", recall=0)
    told("--kind 'pq'", kind="pq")
    told("matches no file", corpus=None, vectors=["absent*"])
    told("holds no titles with vectors", corpus=None, vectors=[str(corpus_file)])
    (tmp_path / "q.txt").write_text("one\n")
    told("expected at least 2", queries=tmp_path / "q.txt")
    embed_command(run_with_prior, corpus_file, tmp_path / "v.parquet", cosine=True, console=console)
    told("without the prior", corpus=None, vectors=[str(tmp_path / "v.parquet")])
    shutil.copy(tmp_path / "v.parquet", tmp_path / "v2.parquet")
    told("comes twice", corpus=None, vectors=[str(tmp_path / "v*.parquet")])


def test_vectors_of_another_model_make_no_index(
    run_directory, run_with_prior, corpus_file, tmp_path, console
):
    embed_command(run_directory, corpus_file, tmp_path / "v.parquet", console=console)
    with pytest.raises(UserError, match="is not what this model makes of it"):
        index_command(
            run_with_prior, None, tmp_path / "i", vectors=[str(tmp_path / "v.parquet")],
            console=console,
        )  # fmt: skip


def test_what_cannot_be_changed_leaves_the_index_as_it_is(run_with_prior, made, tmp_path, console):
    before = {one.name: one.read_bytes() for one in made.iterdir()}
    write_corpus(tmp_path / "twice.tsv", [CorpusTitle("d1", "Red")])
    (tmp_path / "unknown.txt").write_text("d1\nnobody\n")
    (tmp_path / "all.txt").write_text("\n".join(one.doc_id for one in TITLES))
    (tmp_path / "empty.txt").write_text("\n")
    for add, remove, message in [
        (tmp_path / "twice.tsv", None, "id 'd1' is in the index already"),
        (None, tmp_path / "unknown.txt", "id 'nobody' is not in the index"),
        (None, tmp_path / "all.txt", "would leave no title"),
        (None, tmp_path / "empty.txt", "holds no id"),
    ]:
        with pytest.raises(UserError, match=message):
            change_index_command(run_with_prior, made, add, remove, console=console)
    assert {one.name: one.read_bytes() for one in made.iterdir()} == before


def test_a_directory_that_is_no_index_is_told(run_with_prior, corpus_file, tmp_path, console):
    with pytest.raises(UserError, match=r"holds no index\.json"):
        search_command(run_with_prior, None, ["a"], index=tmp_path)
    with pytest.raises(UserError, match="either --corpus or --index"):
        search_command(run_with_prior, None, ["a"])
    with pytest.raises(UserError, match="an index holds its own"):
        search_command(run_with_prior, None, ["a"], index=tmp_path, hybrid=tmp_path / "h.json")
    (tmp_path / "i").mkdir()
    (tmp_path / "i" / "mine.txt").write_text("")
    with pytest.raises(UserError, match="exists already"):
        index_command(run_with_prior, corpus_file, tmp_path / "i", console=console)


def test_words_score_as_bm25_of_the_corpus_does(ranker, tmp_path):
    from dssm_tf.systems import BASELINES

    corpus = [*TITLES, CorpusTitle("x", "Red Hat"), CorpusTitle("y", "red  HAT!")]
    index = TitleIndex.build(ranker, corpus)
    index.save(tmp_path / "i", "f")
    titles = [one.title for one in corpus]
    model = BASELINES["bm25"]().fit([], dict.fromkeys(titles))
    for query in ("red hat", "hat hat box", "nothing here"):
        for one in (index, TitleIndex.open(tmp_path / "i")):
            np.testing.assert_array_equal(one.words.score(query), model.score(query, titles))


def test_opening_an_index_loads_neither_tensorflow_nor_faiss(made):
    code = (
        "import sys; from dssm_tf.retrieval.title_index import TitleIndex;"
        f"TitleIndex.open({str(made)!r});"
        "heavy = {'tensorflow', 'keras', 'faiss', 'bm25s'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_read_corpus_reads_what_write_corpus_wrote(tmp_path):
    write_corpus(tmp_path / "c.tsv", MANY)
    assert read_corpus(tmp_path / "c.tsv") == MANY
