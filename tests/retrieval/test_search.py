import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from dssm_tf.benchmark.cross_validation import ByHalf, halves
from dssm_tf.benchmark.fusion import Hybrid, fuse, to_deploy
from dssm_tf.commands.embed import embed_command
from dssm_tf.commands.search import search_command
from dssm_tf.common.errors import UserError
from dssm_tf.evaluation.evaluate import RankerScores, measure
from dssm_tf.evaluation.task import RankingTask
from dssm_tf.model.run_files import RANKING, mark_finished
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.retrieval.hybrid import ChosenHybrid
from dssm_tf.retrieval.searcher import Searcher
from dssm_tf.systems import BASELINES
from dssm_tf.tables.judgments import CorpusTitle, Judgment
from tests.retrieval.conftest import CORPUS, DIMENSION

TITLES = [CorpusTitle(*row) for row in CORPUS]


@pytest.fixture(scope="module")
def ranker(run_directory):
    return SemanticRanker.load(run_directory)


@pytest.fixture(scope="module")
def searcher(ranker):
    return Searcher(ranker, TITLES)


def ids(found):
    return [hit.doc_id for hit in found.hits]


def test_a_title_asked_for_word_by_word_is_found_by_all(searcher):
    found = searcher.search("red hat", k=3)
    assert ids(found["bm25"])[0] == ids(found["semantic"])[0] == ids(found["hybrid"])[0] == "d1"
    # Equal texts and shared towers: the cosine is 1. First of both: 1/61 twice.
    assert found["semantic"].hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert found["hybrid"].hits[0].score == pytest.approx(2 / 61)
    # "red" is in d4 too; no other title has a word of the query.
    assert ids(found["bm25"]) == ["d1", "d4"]


def test_semantic_scores_are_the_rankers_with_its_prior(run_directory, tmp_path):
    run = shutil.copytree(run_directory, tmp_path / "run")
    (run / RANKING).write_text(json.dumps({"prior_weight": 0.5}))
    mark_finished(run)
    ranker = SemanticRanker.load(run)
    found = Searcher(ranker, TITLES).search("red hat", k=5)["semantic"]
    # Green Tie has nearly all clicks, the others none of 100,001: the prior differs by
    # log(100000) = 11.5 nats, times .5 more than any cosine.
    assert ids(found)[0] == "d3"
    scores = dict(zip(CORPUS, ranker.score("red hat", [title for _, title in CORPUS]), strict=True))
    for hit in found.hits:
        assert hit.score == pytest.approx(scores[hit.doc_id, hit.title], abs=1e-5)


def test_the_linear_fusion_is_the_mean_of_scaled_scores(ranker):
    found = Searcher(ranker, TITLES, fusion="linear").search("red hat", k=5)
    # Best of both: (1 + 1) / 2; the worst of both has 0.
    assert found["hybrid"].hits[0] == ("d1", "Red Hat", pytest.approx(1.0))
    assert found["hybrid"].hits[-1].score == pytest.approx(0.0, abs=1e-6)
    cosine = {hit.doc_id: hit.score for hit in found["semantic"].hits}
    words = {hit.doc_id: hit.score for hit in found["bm25"].hits}
    least = min(cosine.values())
    d4 = next(hit.score for hit in found["hybrid"].hits if hit.doc_id == "d4")
    expected = (words["d4"] / words["d1"] + (cosine["d4"] - least) / (cosine["d1"] - least)) / 2
    assert d4 == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("fusion", ["rrf", "linear"])
def test_queries_that_mean_nothing_say_so(ranker, fusion):
    searcher = Searcher(ranker, TITLES, fusion=fusion)
    for query in ("", " ?! ", "\0"):
        assert {system.note for system in searcher.search(query).values()} == {
            "the query holds no word"
        }
    unknown = searcher.search("zzyzx 日本 \udcff")
    assert not any(system.hits for system in unknown.values())
    assert "no title" in unknown["bm25"].note
    assert "trigrams" in unknown["semantic"].note
    # Trigrams the model knows, in a word that no title has: BM25 finds nothing.
    half = searcher.search("redbox", k=5)
    assert not half["bm25"].hits
    assert len(half["semantic"].hits) == len(half["hybrid"].hits) == 5
    assert ids(half["semantic"]) == ids(half["hybrid"])


def test_equal_titles_tie_in_the_order_of_the_corpus(ranker):
    corpus = [CorpusTitle(f"x{i}", title) for i, title in enumerate(["Blue Box", "Red Hat"] * 3)]
    found = Searcher(ranker, corpus).search("red hat", k=3)
    for system in found.values():
        assert ids(system) == ["x1", "x3", "x5"]
    assert len({hit.score for hit in found["semantic"].hits}) == 1


@pytest.mark.parametrize("index", ["faiss", "hnsw"])
def test_faiss_finds_what_the_exact_index_finds(searcher, ranker, index):
    pytest.importorskip("faiss")
    found = Searcher(ranker, TITLES, index=index).search("box of hats", k=4)
    expected = searcher.search("box of hats", k=4)
    assert {name: system.hits for name, system in found.items()} == {
        name: system.hits for name, system in expected.items()
    }


@pytest.mark.parametrize("cosine", [False, True])
def test_vectors_of_embed_serve_instead_of_encoding(
    run_directory, ranker, searcher, corpus_file, tmp_path, console, cosine
):
    out = tmp_path / "v.npy"
    embed_command(run_directory, corpus_file, out, cosine=cosine, console=console)
    read = Searcher(ranker, TITLES, tmp_path / "v.npy")
    np.testing.assert_allclose(read.vectors, searcher.vectors, atol=1e-6)
    assert ids(read.search("red")["semantic"]) == ids(searcher.search("red")["semantic"])


def test_vectors_that_do_not_belong_are_refused(run_directory, ranker, tmp_path, console):
    def make(name, rows):
        path = tmp_path / f"{name}.tsv"
        path.write_text("doc_id\ttitle\n" + "".join("\t".join(row) + "\n" for row in rows))
        embed_command(run_directory, path, tmp_path / f"{name}.npy", console=console)
        return tmp_path / f"{name}.npy"

    cases = {
        make("short", CORPUS[:4]): f"4 vectors of length {DIMENSION + 1}; the corpus has 5 titles",
        make("turned", CORPUS[::-1]): "turned.ids.txt:1 is 'd5' where the corpus has 'd1'",
        make("other", [(f"d{i}", "Felt Tie") for i in range(1, 6)]): "row 0 is not what this model",
        tmp_path / "absent.npy": "cannot be read: No such file",
    }
    np.save(tmp_path / "flat.npy", np.zeros(5, np.float32))
    np.save(tmp_path / "wide.npy", np.zeros((5, 9), np.float32))
    np.save(tmp_path / "nan.npy", np.full((5, DIMENSION), np.nan, np.float32))
    (tmp_path / "text.npy").write_text("no numbers")
    cases |= {
        tmp_path / "flat.npy": "no matrix",
        tmp_path / "wide.npy": f"length 9; .* length {DIMENSION}, or {DIMENSION + 1} with the",
        tmp_path / "nan.npy": "row 0 is not what",
        tmp_path / "text.npy": "is no array of numbers",
    }
    for path, message in cases.items():
        with pytest.raises(UserError, match=message):
            Searcher(ranker, TITLES, path)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"fusion": "sum"}, "rrf or linear"), ({"index": "ivf"}, "exact, faiss or hnsw")],
)
def test_unknown_settings_are_refused(ranker, options, message):
    with pytest.raises(UserError, match=message):
        Searcher(ranker, TITLES, **options)


def test_titles_are_searched_as_they_are_written(ranker):
    """Brackets are no markup, and a control character moves no cursor."""
    console = Console(file=io.StringIO(), width=100)
    from dssm_tf.retrieval.display import show

    corpus = [CorpusTitle("[d]", "Red [bold]Hat[/bold] \x1b[2J"), CorpusTitle("e", "Box")]
    show(console, "red \x1b[2J", Searcher(ranker, corpus).search("red \x1b[2J"))
    shown = console.file.getvalue()
    assert "Red [bold]Hat[/bold]" in shown
    assert "[d]" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_command_shows_three_systems_within_the_width(run_directory, corpus_file, width):
    console = Console(file=io.StringIO(), width=width)
    search_command(run_directory, corpus_file, ["red hat", "", "zz"], k=2, console=console)
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= max(width, 64)
    for part in ("BM25", "semantic", "hybrid", "ms", "d1", "0.033", "Nothing found: the query"):
        assert part in shown


def test_piped_queries_are_read_line_by_line(run_directory, corpus_file, console, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"red\n\nbl\xffue\n")))
    search_command(run_directory, corpus_file, None, interactive=False, console=console)
    assert console.file.getvalue().count("Query:") == 3


@pytest.mark.parametrize("typed", ["red\n\nblue\n", "red\n"], ids=["empty line", "end of input"])
def test_the_prompt_ends_at_an_empty_line_or_the_end(
    run_directory, corpus_file, console, monkeypatch, typed
):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    search_command(run_directory, corpus_file, None, interactive=True, console=console)
    assert console.file.getvalue().count("Query:") == 1


def test_nothing_shown_is_refused(run_directory, corpus_file, console):
    with pytest.raises(UserError, match="--k 0"):
        search_command(run_directory, corpus_file, ["a"], k=0, console=console)


def test_the_command_line_imports_no_tensorflow_for_these():
    code = (
        "import sys, dssm_tf.retrieval;"
        "heavy = {'tensorflow', 'keras', 'scipy', 'bm25s', 'faiss', 'pyarrow'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", ["linear", "rrf"])
def test_a_hybrid_that_a_benchmark_chose_ranks_as_it_did_there(ranker, tmp_path, kind):
    # What the benchmark makes of the same members: its own pools, its own fusion.
    titles = [entry.title for entry in TITLES]
    query = "red hat box"
    bm25 = BASELINES["bm25"](k1=2.0, b=0.0).fit([], titles)
    judged = [Judgment("q", query, one.doc_id, one.title, 1.0) for one in TITLES[:1]]
    task = RankingTask(judged, TITLES)
    members = {
        "words": ByHalf.of_one(measure("words", RankerScores(bm25, task), task), halves(task)),
        "net": ByHalf.of_one(measure("net", RankerScores(ranker, task), task), halves(task)),
    }
    text = "words+net+prior" if kind == "linear" else "rrf:words+net"
    hybrid = Hybrid.parse(text, list(members))
    log_prior = ranker.prior(task.titles).astype(float)
    fused, _ = fuse(hybrid, members, log_prior, task, "map", 10)
    ranking = fused.joined().rankings[0]
    # One query leaves nothing to choose by: the first setting was used.
    to_deploy(
        hybrid,
        {"values": hybrid.settings()[0]},
        {"words": ("bm25", {"k1": 2.0, "b": 0.0}), "net": ("model", {})},
        depth=1000,
    ).save(tmp_path / "chosen.json")
    chosen = ChosenHybrid.load(tmp_path / "chosen.json")
    hits = Searcher(ranker, TITLES, hybrid=chosen).search(query, k=5)["hybrid"].hits
    wanted = {task.doc_ids[at]: score for at, score in zip(*ranking, strict=True)}
    assert {hit.doc_id: hit.score for hit in hits} == pytest.approx(wanted, abs=1e-5)
    assert [hit.score for hit in hits] == sorted(wanted.values(), reverse=True) or kind == "linear"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "sum"}, "kind is 'sum'"),
        ({"depth": 0}, "depth is 0"),
        ({"values": {"k": -3}}, "expected numbers from 0 on"),
        ({"values": {"k": "60"}}, "expected numbers from 0 on"),
        ({"values": {}}, "holds no hybrid"),
        ({"members": ["bm25", "plsa"]}, "joins bm25, plsa; `dssm search` joins"),
        ({"members": None}, "holds no hybrid"),
        ({"parameters": []}, "0 parameters for 2 members"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_file_that_holds_no_hybrid_is_one_line(
    run_directory, corpus_file, tmp_path, change, message
):
    raw = {"members": ["bm25", "model"], "kind": "rrf", "values": {"k": 60}, "depth": 100}
    path = tmp_path / "hybrid.json"
    path.write_text(json.dumps(raw | {"parameters": [{}, {}]} | change))
    with pytest.raises(UserError, match=message) as caught:
        search_command(run_directory, corpus_file, ["red"], hybrid=path)
    assert "\n" not in str(caught.value)
