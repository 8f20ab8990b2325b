"""`dssm explain`: what is said of a pair, for every tower, and what is drawn of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from rich.console import Console

from dssm_tf.analysis.display import show, write
from dssm_tf.analysis.explanation import GRADIENTS, SHAPLEY, explain
from dssm_tf.cli import main
from dssm_tf.common import figures
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.towers import TOWERS
from tests.choices import small
from tests.clicks import Click, click_log, write_data
from tests.rounding import rounding
from tests.runs import finished_run

QUERY, TITLE = "batlefield three", "Battlefield 3: limited edition!"
SAME = rounding(64, 16)

every_tower = pytest.mark.parametrize("name", TOWERS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rows = [
        Click("battlefield three", "battlefield 3 limited edition", 9),
        Click("box", "x box game", 3),
    ]
    return write_data(tmp_path_factory.mktemp("explained") / "data", [*click_log(), *rows])


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")

    def run(name):
        if not (folder / name).exists():
            tower = {"name": name, **small(TOWERS[name])}
            finished_run(folder / name, data, {"tower": tower}, prior_weight=0.1)
        return folder / name

    return run


@pytest.fixture(scope="module")
def explained(runs):
    found = {}

    def of(name):
        if name not in found:
            found[name] = explain(SemanticRanker.load(runs(name)), QUERY, TITLE)
        return found[name]

    return of


@every_tower
def test_what_the_words_of_either_side_add_sums_to_the_cosine(explained, name):
    found = explained(name)
    for side in (found.query, found.title):
        assert side.method == SHAPLEY
        assert side.contributions.sum() == pytest.approx(found.cosine, abs=SAME)


@every_tower
def test_the_score_is_the_one_that_titles_are_ranked_by(explained, runs, name):
    expected = SemanticRanker.load(runs(name)).score(QUERY, [TITLE])[0]
    assert explained(name).score == pytest.approx(expected, abs=SAME)
    assert explained(name).prior < 0


@every_tower
def test_what_is_lost_is_the_cosine_less_that_of_the_text_without_the_word(explained, runs, name):
    ranker = SemanticRanker.load(runs(name))
    vector = ranker.encode_titles(["battlefield 3 limited edition"])[0]
    shorter = ranker.encode_queries(["batlefield three", "three", "batlefield"]) @ vector
    assert explained(name).query.lost == pytest.approx(shorter[0] - shorter[1:], abs=SAME)


@every_tower
def test_each_word_has_the_trigrams_that_the_model_knows(explained, name):
    battlefield = explained(name).title.trigrams[0]
    assert [ngram for ngram, _ in battlefield] == [
        "#ba", "bat", "att", "ttl", "tle", "lef", "efi", "fie", "iel", "eld", "ld#",
    ]  # fmt: skip


def test_a_word_typed_wrongly_is_said_to_match_by_its_letters(explained):
    found = explained("dssm")
    assert "'batlefield' matches 'battlefield' by shared letters, #ba bat tle" in found._matched(0)


def test_a_text_of_many_words_is_explained_by_gradients_and_says_what_they_miss(runs):
    ranker = SemanticRanker.load(runs("dssm"))
    found = explain(ranker, "box", " ".join([TITLE] * 3))
    assert (found.query.method, found.title.method) == (SHAPLEY, GRADIENTS)
    total = found.title.contributions.sum() + found.title.start + found.title.gap
    assert total == pytest.approx(found.cosine, abs=SAME)
    console = Console(record=True, width=100)
    show(found, console)
    assert "integrated gradients; with no word known the cosine is" in console.export_text()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("?!", r"the query '\?!' holds no word, so there is nothing to explain"),
        ("ωψξ", r"the model knows no letter trigram of the query 'ωψξ'"),
    ],
)
def test_a_text_without_a_known_word_is_a_sentence_not_an_empty_picture(
    runs, tmp_path, capsys, query, said
):
    with pytest.raises(UserError, match=said):
        explain(SemanticRanker.load(runs("dssm")), query, TITLE)
    arguments = ["--query", query, "--title", TITLE, "--out", str(tmp_path / "out")]
    assert main(["explain", "--model", str(runs("dssm")), *arguments]) == 1
    assert not (tmp_path / "out").exists()
    assert capsys.readouterr().err.count("\n") == 1


def test_what_the_model_does_not_see_of_a_text_is_said(runs):
    found = explain(SemanticRanker.load(runs("dssm")), "box ωψξ", "game " * 70)
    assert found.notes == [
        "The model knows no letter trigram of 'ωψξ' in the query.",
        "The model reads the first 64 words of the title; 6 more were cut.",
    ]


@every_tower
def test_the_terminal_shows_every_word_with_its_number(explained, name):
    console = Console(record=True, width=100)
    show(explained(name), console)
    text = console.export_text()
    found = explained(name)
    for side in (found.query, found.title):
        for word, adds in zip(side.words, side.contributions, strict=True):
            assert any(f"{adds:+.3f}" in line for line in text.splitlines() if word in line)
    assert f"score {found.score:.3f} = cosine {found.cosine:.3f}" in text
    assert ("keyword" in text) == bool(found.query.readings)
    assert ("neurons won" in text) == (found.query.features is not None)


def test_json_on_the_terminal_is_the_file_s(runs, tmp_path, capsys):
    arguments = ["--query", QUERY, "--title", TITLE, "--out", str(tmp_path / "out"), "--json"]
    assert main(["explain", "--model", str(runs("bilstm")), *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "explanation.json").read_text("utf-8"))
    words = printed["query"]["words"]
    assert [one["word"] for one in words] == ["batlefield", "three"]
    assert words[0]["cells_moved"][0] is None  # read first from the left
    assert words[1]["cells_moved"][1] is None
    assert {path.name for path in (tmp_path / "out").glob("*.svg")} == {
        "words.svg",
        *(f"{kind}-{side}{end}.svg" for kind in ("gates", "active")
          for side in ("query", "title") for end in ("", "-backwards")),
    }  # fmt: skip


def test_the_figures_show_the_numbers_in_the_order_of_the_words(explained, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, _, name: drawn.update({name: figure}))
    found = explained("bilstm")
    write(found, tmp_path)
    for axis, side in zip(drawn["words"].axes, (found.query, found.title), strict=True):
        assert [label.get_text() for label in axis.get_yticklabels()] == side.words
        assert [bar.get_width() for bar in axis.patches] == pytest.approx(side.contributions)
        assert axis.lines[0].get_xdata() == pytest.approx(side.lost)
        assert axis.yaxis_inverted()  # the first word on top
    forwards, backwards = found.title.readings
    for name, reading in (("gates-title", forwards), ("gates-title-backwards", backwards)):
        *panels, _ = drawn[name].axes  # the last is the bar of colours
        assert [panel.get_title() for panel in panels] == [f"{one}(t)" for one in "ifocy"]
        for panel, gate in zip(panels, "ifocy", strict=True):
            image = panel.images[0]
            np.testing.assert_array_equal(image.get_array(), reading.activations[gate].T)
            assert image.get_clim() == (-1, 1)
            assert [one.get_text() for one in panel.get_xticklabels()] == found.title.words
    panel = drawn["active-title-backwards"].axes[0]
    cells = [int(label.get_text()) for label in panel.get_yticklabels()]
    last_read = np.abs(backwards.activations["y"][0])
    assert cells[0] == last_read.argmax()
    np.testing.assert_array_equal(panel.images[0].get_array(), backwards.activations["y"].T[cells])


def test_the_links_of_a_clsm_join_the_words_that_win(explained, tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "save", lambda figure, _, name: drawn.update({name: figure}))
    found = explained("clsm")
    write(found, tmp_path)
    axis = drawn["neurons"].axes[0]
    places = {one.get_text(): one.xy[1] for one in axis.texts}
    assert len(axis.lines) == len(found.links()) > 0
    for line, link in zip(axis.lines, found.links(), strict=True):
        words = found.query.words[link.query], str(link.neuron), found.title.words[link.title]
        assert line.get_ydata() == pytest.approx([places[one] for one in words])
