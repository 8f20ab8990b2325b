"""`dssm index`, `dssm search` and the search page with a maxsim model."""

from __future__ import annotations

import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.commands.index import index
from dssm_tf.commands.search import search
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime import load
from dssm_tf.server.page import render
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.runtime.maxsim_models import TITLES, random_model, write_compact_model

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, a corpus and an index. Tests must not change them."""
    folder = tmp_path_factory.mktemp("shop")
    write_compact_model(random_model(), folder / "model", {"shoe box": -1.5})
    titles = [CorpusTitle(f"d{row}", title) for row, title in enumerate(filter(None, TITLES))]
    write_corpus(folder / "corpus.tsv", titles)
    index(model=folder / "model", corpus=folder / "corpus.tsv", out=folder / "index")
    return folder


def test_index_says_what_it_wrote_and_takes_the_number_of_similar_words(folder, tmp_path, capsys):
    flags = ["--model", folder / "model", "--corpus", folder / "corpus.tsv"]
    out = tmp_path / "index"
    assert main(["index", *map(str, flags), "--similar-words", "3", "--out", str(out)]) == 0
    assert "9 titles; 9 distinct ones" in capsys.readouterr().err
    opened = open_index(out)
    assert isinstance(opened, MaxSimIndex)
    assert opened.similar_words == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"kind": "fast"}, "whose index compares all titles; leave --kind and --queries out"),
        ({"similar_words": 0}, "similar_words is 0; expected at least 1"),
    ],
)
def test_flags_that_do_not_fit_are_errors_and_write_nothing(folder, tmp_path, flags, message):
    with pytest.raises(UserError, match=message):
        index(model=folder / "model", corpus=folder / "corpus.tsv", out=tmp_path / "new", **flags)
    assert not (tmp_path / "new").exists()


def test_the_terminal_shows_the_first_200_characters_of_titles_and_queries(
    folder, tmp_path, capsys
):
    title = f"red shoe {'x' * 10**6}"
    write_corpus(tmp_path / "corpus.tsv", [CorpusTitle("d1", title)])
    search(title, model=folder / "model", corpus=tmp_path / "corpus.tsv")
    text = capsys.readouterr().out
    assert f"Query: {title[:199]}…\n" in text
    assert f"  1 {title[:199]}…  (d1: score " in text
    assert len(text) < 1000


def test_the_terminal_prints_the_models_scores(folder, capsys):
    search("red shoez", index=folder / "index", k=3)
    from_index = capsys.readouterr().out
    search("red shoez", model=folder / "model", corpus=folder / "corpus.tsv", k=3)
    assert capsys.readouterr().out == from_index
    hit = open_index(folder / "index").search("red shoez", 1).rankings["semantic"][0]
    assert hit.score == approx(load(folder / "model").score("red shoez", [hit.title])[0], abs=1e-6)
    assert f"score {hit.score:.3f}, query words" in from_index


def test_the_page_shows_one_ranking_marks_matches_and_explains_them(folder):
    opened = open_index(folder / "index")
    hit = opened.search("red shoe").rankings["semantic"][0]
    page = render(opened, "red shoe", hit.doc_id, "semantic")
    assert "<mark>red</mark>" in page.lower()
    assert page.count("<section") == 1
    assert "Contributions are exact" in page
    assert "The query has no word." in render(opened, "?!")


def test_the_terminal_cuts_long_titles(folder, tmp_path, capsys):
    titles = [CorpusTitle("long", "red shoe " * 10_000), CorpusTitle("short", "shoe")]
    write_corpus(tmp_path / "corpus.tsv", titles)
    search("red shoe", model=folder / "model", corpus=tmp_path / "corpus.tsv")
    line = next(line for line in capsys.readouterr().out.splitlines() if "(long: " in line)
    assert len(line.partition("(long: ")[0]) < 210
    assert "…" in line
