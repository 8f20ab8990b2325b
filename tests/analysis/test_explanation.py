"""`dssm explain`: what is said of a pair, for every model, and what is drawn of it."""

import functools
import json

import numpy as np
import pytest

from dssm_tf.analysis.cells import Reading, cell_keywords
from dssm_tf.analysis.explanation import SCORE, Explanation, Side, explain
from dssm_tf.analysis.rendering import figures, markdown
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.cli import main
from dssm_tf.common.markdown import html, plain, table
from dssm_tf.export.compact import export_compact
from dssm_tf.export.load import load_model
from dssm_tf.export.saved_model import export_saved_model
from tests.components import TOWER_CONFIGS
from tests.rounding import rounding

QUERY, TITLE = "batlefield three", "Battlefield 3: limited edition!"
LONG = "the red fox story of a blue owl and a bear"  # eleven words: sampled
SAME = rounding(64, 16)

every_tower = pytest.mark.parametrize("name", TOWER_CONFIGS)


@pytest.fixture(scope="module")
def explained(rankers):
    return functools.cache(lambda name: explain(rankers(name), QUERY, TITLE))


@pytest.fixture
def command(tmp_path):
    """Runs `dssm explain` on a model; gives its exit code and what it writes into."""

    def run(model, query=QUERY, title=TITLE, *more):
        out = tmp_path / "out"
        texts = ["--query", query, "--title", title]
        return main(["explain", "--model", str(model), *texts, "--out", str(out), *more]), out

    return run


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    """The BiLSTM as a SavedModel and as a compact model, by the directory of versions."""
    folder = tmp_path_factory.mktemp("exports")
    export_saved_model(runs("bilstm"), folder / "saved", "served")
    export_compact(runs("bilstm"), folder / "compact", "served")
    return {kind: folder / kind / "served" for kind in ("saved", "compact")}


@every_tower
def test_what_words_add_sums_to_the_cosine_of_the_score_and_what_they_lose_is_the_model_s(
    explained, rankers, name
):
    found, ranker = explained(name), rankers(name)
    for side in (found.query, found.title):
        assert side.standard_errors is None
        assert side.contributions.sum() == pytest.approx(found.cosine, abs=SAME)
    assert found.score == pytest.approx(ranker.score(QUERY, [TITLE])[0], abs=SAME)
    vector = ranker.encode_titles(["battlefield 3 limited edition"])[0]
    shorter = ranker.encode_queries(["batlefield three", "three", "batlefield"]) @ vector
    assert found.query.lost == pytest.approx(shorter[0] - shorter[1:], abs=SAME)


def test_sampled_values_sum_to_the_cosine_and_are_shown_with_their_errors(rankers):
    found = explain(rankers("dssm"), LONG, TITLE)
    assert found.query.contributions.sum() == pytest.approx(found.cosine, abs=SAME)
    assert found.query.standard_errors.max() > 0
    assert "standard error" in markdown(found).split("\n")[0]
    assert f"{found.query.standard_errors[0]:+.3f}" in markdown(found)


def test_a_best_seller_gains_by_its_clicks_and_a_title_nobody_clicked_loses(rankers):
    ranker = rankers("dssm")
    titles = list(ranker.prior.log_shares)
    average = np.mean(ranker.weighted_prior(titles))
    best, other = (explain(ranker, QUERY, title) for title in (TITLE, "battlefield"))
    assert best.mean_prior == other.mean_prior == pytest.approx(average, abs=SAME)
    clicks = best.prior - best.mean_prior
    assert clicks == pytest.approx(ranker.weighted_prior([TITLE])[0] - average, abs=SAME)
    assert other.prior - other.mean_prior < 0 < clicks
    assert best.parts() == f"Similarity {best.cosine:.3f} (the cosine), popularity +{clicks:.3f}"


@pytest.mark.parametrize("kind", ["saved", "compact"])
@pytest.mark.parametrize("query", [QUERY, LONG])
def test_an_export_is_explained_as_its_run_is(rankers, exports, kind, query):
    inside = explain(rankers("bilstm"), query, TITLE)
    outside = explain(load_model(exports[kind]), query, TITLE)
    for name in ("score", "prior", "mean_prior", "pairs"):
        assert getattr(outside, name) == pytest.approx(getattr(inside, name), abs=1e-5)
    for own, other in ((outside.query, inside.query), (outside.title, inside.title)):
        assert own.words == other.words
        assert own.contributions == pytest.approx(other.contributions, abs=1e-5)
        assert own.lost == pytest.approx(other.lost, abs=1e-5)
    assert "An export does not show its layers" in outside.notes[-1]
    assert inside.mean_prior != 0


@pytest.mark.parametrize("kind", ["saved", "compact"])
def test_the_command_takes_what_serve_takes(exports, command, capsys, kind):
    code, out = command(exports[kind].parent)
    assert code == 0
    assert "batlefield" in capsys.readouterr().out
    assert {one.name for one in out.iterdir()} == {
        "explanation.json",
        "report.md",
        "report.html",
        "words.png",
        "words.svg",
    }


def test_a_bm25_score_is_the_sum_of_its_words(tmp_path, command, capsys):
    ranker = BM25().fit([], ["red fox", "blue owl", "green bear"])
    found = explain(ranker, "red bear fox", "red fox")
    alone = [ranker.score(word, ["red fox"])[0] for word in ("red", "bear", "fox")]
    assert found.measure == SCORE
    assert found.query.contributions == pytest.approx(alone)
    ranker.save(tmp_path / "bm25")
    assert command(tmp_path / "bm25", "red bear fox", "red fox")[0] == 0
    shown = capsys.readouterr().out
    assert "'red' is in the title" in shown
    assert f"- Score {found.score:.3f}.\n" in shown


@pytest.mark.parametrize("kind", ["run", "saved", "compact"])
@pytest.mark.parametrize(
    ("query", "said"),
    [("?!", "the query '?!' has no word"), ("ωψξ", "no letter trigram of the query 'ωψξ'")],
)
def test_a_text_without_a_known_word_is_a_sentence_not_an_empty_picture(
    runs, exports, command, capsys, kind, query, said
):
    code, out = command(exports.get(kind) or runs("bilstm"), query)
    assert code == 1
    assert not out.exists()
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_what_the_model_does_not_see_of_a_text_is_said(rankers):
    found = explain(rankers("dssm"), "box ωψξ", "game " * 70)
    assert found.notes == [
        "The vocabulary has no letter trigram of 'ωψξ' in the query.",
        "The model reads the first 64 words of the title; 6 more were cut.",
    ]


def by_hand(*adds, cosine=1.0, lost=0.0, query="ice hot"):
    """An explanation of a title of one word, of which only the numbers matter."""
    words, nothing = query.split(), np.zeros(len(adds))
    sides = (
        Side("query", words, np.array(adds), None, 0.0, nothing),
        Side("title", ["cone"], nothing[:1], None, 0.0, nothing[:1]),
    )
    pairs = np.array([[0.0]] * (len(words) - 1) + [[lost]])
    return Explanation("m", *sides, cosine, 0.0, 0.0, pairs, [])


@pytest.mark.parametrize(
    ("lost", "said"),
    [(0.4, "'hot' goes with 'cone', because"), (0.39, "with the title as a whole")],
)
def test_a_word_goes_with_another_that_half_of_its_worth_rests_on(lost, said):
    assert said in by_hand(0.2, 0.8, lost=lost).sentences()[0]


def test_words_of_less_than_a_tenth_are_named_together():
    said = by_hand(-0.1, 0.9, 0.09, -0.09, query="ice hot a b").sentences()
    assert said[1:] == [
        "'ice' speaks against it (-0.100).", "Of little weight: 'a', 'b' (+0.000)."
    ]  # fmt: skip
    assert by_hand(0.1, -0.2, cosine=-0.1).sentences() == [
        "The model finds nothing in common between the two texts."
    ]


def test_a_word_is_like_another_with_half_of_its_trigrams():
    # Of cone's #co con one ne# cons has two and cold one.
    found = by_hand(0.5, 0.5, query="cons cold")
    assert [found.alike(place) for place in (0, 1)] == [("cone", ["#co", "con"]), None]
    assert found.sentences()[0] == "'cons' matches 'cone' by shared letters, #co con (+0.500)."


@every_tower
def test_markdown_and_json_show_every_word_with_the_same_numbers(explained, name):
    found = explained(name)
    lines = markdown(found).splitlines()
    said = found.to_json()
    for side in (found.query, found.title):
        for word, row in zip(side.words, said[side.name]["words"], strict=True):
            (line,) = [line for line in lines if line.split()[1:2] in ([word], [f"**{word}**"])]
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            assert cells[1:3] == [f"{row['adds']:+.3f}", f"{row['lost without']:+.3f}"]
            assert ("**" in cells[0]) == bool(row.get("keyword", row.get("top neurons won")))
    assert f"- Similarity {found.cosine:.3f} (the cosine)" in "\n".join(lines)
    heads = " ".join(found.query.columns())
    assert ("keyword" in heads) == (name not in ("dssm", "clsm"))
    assert ("neurons won" in heads) == (name == "clsm")
    assert f'<td style="text-align:right">{found.query.lost[0]:+.3f}</td>' in html(markdown(found))


def test_a_text_of_the_data_is_no_markup():
    """A title may hold anything; on a page it loads and runs nothing."""
    evil = "<img src=x> [a](javascript:b) *c* |d"
    said = html(table(["title"], [[plain(evil)]]))
    assert "<img" not in said
    assert "<a" not in said
    assert "<em>" not in said
    assert said.count("<td") == 1


def test_json_on_the_terminal_is_the_file_s(runs, explained, command, capsys):
    code, out = command(runs("bilstm"), QUERY, TITLE, "--json")
    assert code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "explanation.json").read_text("utf-8"))
    words = printed["query"]["words"]
    assert [one["word"] for one in words] == ["batlefield", "three"]
    assert words[0]["cells moved of 4, left to right"] is None  # read first from the left
    assert words[1]["cells moved of 4, right to left"] is None
    readings = explained("bilstm").query.readings
    assert all(isinstance(one, Reading) for one in readings)
    expected = {str(cell): of_cell for cell, of_cell in cell_keywords(readings).items()}
    assert printed["query"]["cell_keywords"] == expected
    assert {path.name for path in out.glob("*.svg")} == {
        "words.svg",
        *(f"{kind}-{side}{end}.svg" for kind in ("gates", "active")
          for side in ("query", "title") for end in ("", "-backwards")),
    }  # fmt: skip


def test_the_figures_show_the_numbers_in_the_order_of_the_words(explained):
    found = explained("bilstm")
    drawn = figures(found)
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


def test_the_links_of_a_clsm_name_the_words_that_win_as_in_fig_4(explained):
    found = explained("clsm")
    assert found.links()
    for link in found.links():
        for side, place in ((found.query, link.query), (found.title, link.title)):
            assert side.features[:, link.neuron].argmax() == place
        words = found.query.words[link.query], found.title.words[link.title]
        assert f"{link.neuron} ({words[0]}, {words[1]})" in markdown(found)
