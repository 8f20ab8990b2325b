"""`dssm explain` by Shapley values: numbers, sentences and figures, for every tower."""

import functools
import json

import numpy as np
import pytest

from dssm_tf.analysis.cells import Reading, cell_keywords
from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.rendering import figures, markdown
from dssm_tf.analysis.shapley_explanation import SCORE, ShapleyExplanation, TextExplanation
from dssm_tf.baselines.bm25 import BM25
from dssm_tf.baselines.ulm import ULM
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import copy_compact, export_compact
from dssm_tf.export.load import load_model
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.reports.markdown import html, plain, table
from dssm_tf.text.rules import TextRules
from tests.clicks import Click, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.rounding import rounding_bound
from tests.runs import finished_run

QUERY, TITLE = "batlefield three", "Battlefield 3: limited edition!"
LONG = "the red fox story of a blue owl and a bear"  # eleven words: sampled
TOLERANCE = rounding_bound(64, 16)

every_tower = pytest.mark.parametrize("name", TOWER_CONFIGS)


@pytest.fixture(scope="module")
def explained(rankers):
    return functools.cache(lambda name: explain(rankers(name), QUERY, TITLE))


@pytest.fixture
def command(tmp_path):
    """Returns a function that runs `dssm explain`: it returns the exit code and the directory."""

    def run(model, query=QUERY, title=TITLE, *more):
        out = tmp_path / "out"
        texts = ["--query", query, "--title", title]
        return main(["explain", "--model", str(model), *texts, "--out", str(out), *more]), out

    return run


@pytest.fixture(scope="module")
def exports(runs, tmp_path_factory):
    """The directories of the BiLSTM as a SavedModel and as a compact model."""
    folder = tmp_path_factory.mktemp("exports")
    export_saved_model(runs("bilstm"), folder / "saved", "served")
    export_compact(runs("bilstm"), folder / "compact", "served")
    return {kind: folder / kind / "served" for kind in ("saved", "compact")}


@pytest.mark.long
@every_tower
def test_contributions_sum_to_the_cosine_and_losses_are_differences_of_cosines(
    explained, rankers, name
):
    explanation, ranker = explained(name), rankers(name)
    for side in (explanation.query, explanation.title):
        assert side.standard_errors is None
        assert side.contributions.sum() == pytest.approx(explanation.similarity, abs=TOLERANCE)
    assert explanation.score == pytest.approx(ranker.score(QUERY, [TITLE])[0], abs=TOLERANCE)
    vector = ranker.encode_titles(["battlefield 3 limited edition"])[0]
    cosines = ranker.encode_queries(["batlefield three", "three", "batlefield"]) @ vector
    assert explanation.query.losses == pytest.approx(cosines[0] - cosines[1:], abs=TOLERANCE)


@pytest.mark.parametrize("name", ["dssm", "lstm"])
@pytest.mark.parametrize("title", ["red fox␟acme shop", f"red fox␟acme {LONG}"])
def test_a_title_with_own_fields_has_its_own_score_and_words_without_marks(tmp_path, name, title):
    clicks = [Click("red fox", "red fox␟acme shop", 2), Click("owl", "blue owl␟bolt", 1)]
    data = write_data(tmp_path / "data", clicks, rules=TextRules(False, own_fields=2))
    tower = {"name": name, **small_sizes(TOWER_CONFIGS[name])}
    ranker = SemanticRanker.load(finished_run(tmp_path / "run", data, {"tower": tower}))
    explanation = explain(ranker, "fox shop", title)
    assert explanation.title.words == title.replace("␟", " ").split()
    assert explanation.score == pytest.approx(ranker.score("fox shop", [title])[0], abs=TOLERANCE)
    assert explanation.title.contributions.sum() == pytest.approx(
        explanation.similarity, abs=TOLERANCE
    )
    text = f"{markdown(explanation)}\n{json.dumps(explanation.to_json(), ensure_ascii=False)}"
    assert "␟" not in text
    for reading in explanation.title.readings:
        assert reading.words == explanation.title.words


def test_sampled_values_sum_to_the_cosine_and_are_printed_with_their_errors(rankers):
    explanation = explain(rankers("dssm"), LONG, TITLE)
    assert explanation.query.contributions.sum() == pytest.approx(
        explanation.similarity, abs=TOLERANCE
    )
    assert explanation.query.standard_errors.max() > 0
    assert "standard error" in markdown(explanation).split("\n")[0]
    assert f"{explanation.query.standard_errors[0]:+.3f}" in markdown(explanation)


def test_popularity_raises_the_score_of_a_best_seller_and_lowers_that_of_an_unclicked_title(
    rankers,
):
    ranker = rankers("dssm")
    titles = list(ranker.prior.log_priors)
    average = np.mean(ranker.weighted_prior(titles))
    best_seller, other = (explain(ranker, QUERY, title) for title in (TITLE, "battlefield"))
    assert best_seller.mean_prior == other.mean_prior == pytest.approx(average, abs=TOLERANCE)
    popularity = best_seller.prior - best_seller.mean_prior
    assert popularity == pytest.approx(ranker.weighted_prior([TITLE])[0] - average, abs=TOLERANCE)
    assert other.prior - other.mean_prior < 0 < popularity
    assert best_seller.score_breakdown() == (
        f"Score {best_seller.score:.3f}: similarity {best_seller.similarity:.3f} (the cosine), "
        f"prior {best_seller.prior:+.3f}"
    )
    assert (
        f"Popularity +{popularity:.3f}: the prior minus that of the average clicked title."
        in best_seller.sentences()
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", ["saved", "compact"])
@pytest.mark.parametrize("query", [QUERY, LONG])
def test_an_export_has_the_same_explanation_as_its_run(rankers, exports, kind, query):
    from_run = explain(rankers("bilstm"), query, TITLE)
    from_export = explain(load_model(exports[kind]), query, TITLE)
    for name in ("score", "prior", "mean_prior", "interactions"):
        assert getattr(from_export, name) == pytest.approx(getattr(from_run, name), abs=1e-5)
    for side in ("query", "title"):
        actual, expected = getattr(from_export, side), getattr(from_run, side)
        assert actual.words == expected.words
        assert actual.contributions == pytest.approx(expected.contributions, abs=1e-5)
        assert actual.losses == pytest.approx(expected.losses, abs=1e-5)
    assert "An export does not contain its layers" in from_export.notes[-1]
    assert from_run.mean_prior != 0


@pytest.mark.parametrize("kind", ["saved", "compact"])
def test_the_command_accepts_a_directory_of_versions_and_writes_a_report(
    exports, command, capsys, kind
):
    code, out = command(exports[kind].parent)
    assert code == 0
    assert "batlefield" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "explanation.json",
        "report.md",
        "report.html",
        "words.png",
        "words.svg",
    }


def test_contributions_to_a_bm25_score_are_the_scores_of_single_words(tmp_path, command, capsys):
    ranker = BM25().fit([], ["red fox", "blue owl", "green bear"])
    explanation = explain(ranker, "red bear fox", "red fox")
    word_scores = [ranker.score(word, ["red fox"])[0] for word in ("red", "bear", "fox")]
    assert explanation.measure == SCORE
    assert explanation.query.contributions == pytest.approx(word_scores)
    ranker.save(tmp_path / "bm25")
    assert command(tmp_path / "bm25", "red bear fox", "red fox")[0] == 0
    output = capsys.readouterr().out
    assert "'red' is in the title" in output
    assert f"- Score {explanation.score:.3f}.\n" in output


@pytest.mark.parametrize("baseline", [ULM, BM25])
def test_an_exact_match_has_something_in_common_for_a_log_likelihood_too(baseline):
    ranker = baseline().fit([], ["red fox", "blue owl", "green bear", "black hat"])
    explanation = explain(ranker, "red fox", "red fox")
    assert explanation.score == pytest.approx(ranker.score("red fox", ["red fox"])[0])
    first, second = explanation.sentences()
    assert {first.split(" (")[0], second.split(" (")[0]} == {
        "'red' is in the title", "'fox' is in the title"
    }  # fmt: skip
    without_words = ranker.score("red fox", [""])[0]
    total = explanation.query.contributions.sum()
    assert total == pytest.approx(explanation.score - without_words)
    assert total > 0
    assert explain(ranker, "red fox", "blue owl").sentences() == [
        "The model finds nothing in common between the two texts."
    ]


def test_the_contribution_of_a_word_to_a_log_likelihood_is_a_log_ratio():
    # Four of eight words are equally frequent: p(w|C) = 1/8; mu 30; the title has two words.
    ranker = ULM().fit([], ["red fox", "blue owl", "green bear", "black hat"])
    ratio = np.log((1 + 30 / 8) / (2 + 30)) - np.log(1 / 8)
    explanation = explain(ranker, "red fox", "red fox")
    assert explanation.query.contributions == pytest.approx([ratio, ratio])
    assert f"{2 * ratio:+.3f} above a title without words" in explanation.score_breakdown()


def test_an_index_is_explained_by_its_model(runs, exports, command, tmp_path, capsys):
    (tmp_path / "index").mkdir()
    copy_compact(runs("dssm"), tmp_path / "index" / "model")
    code, _ = command(tmp_path / "index")
    assert code == 0
    assert "similarity" in capsys.readouterr().out


@pytest.mark.parametrize(("tower", "layers"), [("bilstm", "gates and cells"), ("clsm", "neurons")])
def test_a_note_names_the_layers_that_only_a_run_shows(runs, tmp_path, tower, layers):
    ranker = load_model(export_compact(runs(tower), tmp_path))
    assert f"To see its {layers}, explain the run" in explain(ranker, QUERY, TITLE).notes[-1]


@pytest.mark.parametrize("tower", ["dssm", "words"])
def test_an_export_of_a_model_without_gates_and_neurons_has_no_note_about_them(
    runs, tmp_path, tower
):
    ranker = load_model(export_compact(runs(tower), tmp_path))
    assert not any("layers" in note for note in explain(ranker, QUERY, TITLE).notes)


@pytest.mark.parametrize("kind", ["run", "saved", "compact"])
@pytest.mark.parametrize(
    ("query", "message"),
    [("?!", "the query '?!' has no word"), ("ωψξ", "no letter n-gram of the query 'ωψξ'")],
)
def test_a_text_without_a_known_word_is_an_error_of_one_line(
    runs, exports, command, capsys, kind, query, message
):
    code, out = command(exports.get(kind) or runs("bilstm"), query)
    assert code == 1
    assert not out.exists()
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_notes_list_unknown_and_dropped_words(rankers):
    explanation = explain(rankers("dssm"), "box ωψξ", "game " * 70)
    assert explanation.notes == [
        "The vocabulary has no letter n-gram of 'ωψξ' in the query.",
        "The model reads the first 64 words of the title; it drops 6 more.",
    ]


@pytest.mark.parametrize("text", ["w " * 500_000, " ".join(map(str, range(150_000))), "x" * 10**6])
def test_the_explanation_of_a_megabyte_is_small(text):
    explanation = explain(BM25().fit([], ["red fox", "blue owl"]), "red fox", f"red {text}")
    assert len(explanation.title.words) <= 200
    assert len(markdown(explanation)) < 40_000
    assert explanation.notes == [] or "The first 200 words of the title" in explanation.notes[0]


def test_the_error_about_a_text_without_a_word_is_short(rankers):
    for ranker, text in ((BM25(), "?" * 10**6), (rankers("dssm"), "ω" * 10**6)):
        with pytest.raises(UserError) as error:
            explain(ranker, text, "red")
        assert len(str(error.value)) < 500


def small_explanation(*contributions, cosine=1.0, interaction=0.0, query="ice hot"):
    """An explanation with the title `cone`; the last query word interacts with it."""
    words, zeros = query.split(), np.zeros(len(contributions))
    sides = (
        TextExplanation("query", words, np.array(contributions), None, 0.0, zeros),
        TextExplanation("title", ["cone"], zeros[:1], None, 0.0, zeros[:1]),
    )
    interactions = np.array([[0.0]] * (len(words) - 1) + [[interaction]])
    return ShapleyExplanation("m", *sides, cosine, 0.0, 0.0, interactions, [])


@pytest.mark.parametrize(
    ("interaction", "sentence"),
    [(0.4, "'hot' goes with 'cone', as learned"), (0.39, "with the title as a whole")],
)
def test_a_word_goes_with_a_title_word_that_accounts_for_half_of_its_contribution(
    interaction, sentence
):
    assert sentence in small_explanation(0.2, 0.8, interaction=interaction).sentences()[0]


def test_words_below_a_tenth_of_the_cosine_share_one_sentence():
    sentences = small_explanation(-0.1, 0.9, 0.09, -0.09, query="ice hot a b").sentences()
    assert sentences[1:] == [
        "'ice' lowers the score (-0.100).", "Of little weight: 'a', 'b' (+0.000)."
    ]  # fmt: skip
    assert small_explanation(0.1, -0.2, cosine=-0.1).sentences() == [
        "The model finds nothing in common between the two texts."
    ]


def test_similar_spelling_needs_half_of_the_trigrams():
    # cone has the trigrams #co con one ne#; cons shares two of them, cold one.
    explanation = small_explanation(0.5, 0.5, query="cons cold")
    similar = [explanation.similar_spelling(position) for position in (0, 1)]
    assert similar == [("cone", ["#co", "con"]), None]
    assert (
        explanation.sentences()[0] == "'cons' matches 'cone' by shared letters, #co con (+0.500)."
    )


@every_tower
def test_markdown_and_json_show_every_word_with_the_same_numbers(explained, name):
    explanation = explained(name)
    lines = markdown(explanation).splitlines()
    data = explanation.to_json()
    for side in (explanation.query, explanation.title):
        for word, row in zip(side.words, data[side.name]["words"], strict=True):
            (line,) = [line for line in lines if line.split()[1:2] in ([word], [f"**{word}**"])]
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            assert cells[1:3] == [f"{row['adds']:+.3f}", f"{row['lost without']:+.3f}"]
            assert ("**" in cells[0]) == bool(row.get("keyword", row.get("top neurons won")))
    assert f": similarity {explanation.similarity:.3f} (the cosine)" in "\n".join(lines)
    heads = " ".join(explanation.query.columns())
    assert ("keyword" in heads) == (name not in ("dssm", "clsm", "words"))
    assert ("neurons won" in heads) == (name == "clsm")
    assert f'<td style="text-align:right">{explanation.query.losses[0]:+.3f}</td>' in html(
        markdown(explanation)
    )


def test_markup_in_a_title_is_escaped():
    evil = "<img src=x> [a](javascript:b) *c* |d"
    page = html(table(["title"], [[plain(evil)]]))
    assert "<img" not in page
    assert "<a" not in page
    assert "<em>" not in page
    assert page.count("<td") == 1


@pytest.mark.long
def test_printed_json_equals_the_written_file(runs, explained, command, capsys):
    code, out = command(runs("bilstm"), QUERY, TITLE, "--json")
    assert code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "explanation.json").read_text("utf-8"))
    words = printed["query"]["words"]
    assert [word["word"] for word in words] == ["batlefield", "three"]
    assert words[0]["cells changed of 4, left to right"] is None  # read first from the left
    assert words[1]["cells changed of 4, right to left"] is None
    readings = explained("bilstm").query.readings
    assert all(isinstance(reading, Reading) for reading in readings)
    expected = {str(cell): keywords for cell, keywords in cell_keywords(readings).items()}
    assert printed["query"]["cell_keywords"] == expected
    assert {path.name for path in out.glob("*.svg")} == {
        "words.svg",
        *(f"{kind}-{side}{end}.svg" for kind in ("gates", "active")
          for side in ("query", "title") for end in ("", "-backwards")),
    }  # fmt: skip


def test_the_figures_show_the_numbers_in_the_order_of_the_words(explained):
    explanation = explained("bilstm")
    drawings = figures(explanation)
    for axis, side in zip(
        drawings["words"].axes, (explanation.query, explanation.title), strict=True
    ):
        assert [label.get_text() for label in axis.get_yticklabels()] == side.words
        assert [bar.get_width() for bar in axis.patches] == pytest.approx(side.contributions)
        assert axis.lines[0].get_xdata() == pytest.approx(side.losses)
        assert axis.yaxis_inverted()  # the first word on top
    forwards, backwards = explanation.title.readings
    for name, reading in (("gates-title", forwards), ("gates-title-backwards", backwards)):
        *panels, _ = drawings[name].axes  # the last is the color bar
        assert [panel.get_title() for panel in panels] == [f"{gate}(t)" for gate in "ifocy"]
        for panel, gate in zip(panels, "ifocy", strict=True):
            image = panel.images[0]
            np.testing.assert_array_equal(image.get_array(), reading.activations[gate].T)
            assert image.get_clim() == (-1, 1)
            assert [
                label.get_text() for label in panel.get_xticklabels()
            ] == explanation.title.words
    panel = drawings["active-title-backwards"].axes[0]
    cells = [int(label.get_text()) for label in panel.get_yticklabels()]
    last_read = np.abs(backwards.activations["y"][0])
    assert cells[0] == last_read.argmax()
    np.testing.assert_array_equal(panel.images[0].get_array(), backwards.activations["y"].T[cells])


def test_links_of_a_clsm_name_the_winning_words_as_in_fig_4(explained):
    explanation = explained("clsm")
    assert explanation.links()
    for link in explanation.links():
        for side, position in ((explanation.query, link.query), (explanation.title, link.title)):
            assert side.features[:, link.neuron].argmax() == position
        words = explanation.query.words[link.query], explanation.title.words[link.title]
        assert f"{link.neuron} ({words[0]}, {words[1]})" in markdown(explanation)
