"""Explanations of the score maxsim: exact parts that add up to the score, and their sentences."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from dssm_tf.analysis.explanation import explain
from dssm_tf.analysis.match_explanation import MatchExplanation
from dssm_tf.analysis.rendering import figures, markdown
from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import export_compact
from dssm_tf.export.load import load_model
from dssm_tf.export.saved_model import export_saved_model
from dssm_tf.runtime.maxsim_ranker import MaxSimRanker
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.word_matches import CosinePart, WordMatch, WordMatches
from dssm_tf.text.rules import FOLDED
from tests.runtime.maxsim_models import SETTINGS, TITLES, example_model, random_model

PAIRS = [
    ("red fox", "the red fox"),
    ("batlefield three zzz", "Battlefield 3: limited edition!"),
    ("ωψξ", "blue owl story"),
    ("red red fox", "the fox, the red fox story"),
]


DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "analysis.md"


def example(prior: float = -0.04, mean_prior: float = -0.05) -> MaxSimRanker:
    """The model of the worked example of docs/maxsim.md; every title has the same prior."""
    return MaxSimRanker(
        SETTINGS | {"mean_prior": mean_prior},
        example_model(),
        lambda titles: np.full(len(titles), prior, np.float32),
    )


@pytest.fixture(scope="module")
def models(runs, tmp_path_factory):
    """Directories of a run, its compact model and its SavedModel."""
    folder = tmp_path_factory.mktemp("maxsim")
    return {
        "run": runs("maxsim"),
        "compact": export_compact(runs("maxsim"), folder / "compact", "shop"),
        "int8": export_compact(runs("maxsim"), folder / "int8", "shop", number_type="int8"),
        "saved": export_saved_model(runs("maxsim"), folder / "saved", "shop"),
    }


def contributions(data) -> list[float]:
    """The contributions of an explanation in JSON."""
    words = [*data["query"]["words"], *data["title"]["words"]]
    return [part["contribution"] for part in (*words, *data["pairs"], *data["text_cosine"])]


def cosine_example() -> MatchExplanation:
    """An explanation with a text cosine of .050 + .0324 + .0001 - .0005 + 0 = .082."""
    parts = {"steel": 0.0324, "big": -0.0005, "fridge": 0.050, "zzz": 0.0, "a": 0.0001}
    match = WordMatch("fridge", "fridge", 1.0, 0.5, 0.5)
    matches = WordMatches([match], [match], [], [CosinePart(*part) for part in parts.items()], [])
    return MatchExplanation("shop", matches, 0.0, 0.0, 0.0, (0, 0), [])


def random_ranker(**options) -> MaxSimRanker:
    """A model with random weights, and with text vectors unless `options` say otherwise."""
    model = random_model([*TITLES, *TITLES], **options)
    return MaxSimRanker(SETTINGS, model, lambda titles: np.full(len(titles), -0.1, np.float32))


# --------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("kind", ["run", "compact", "int8"])
@pytest.mark.parametrize(("query", "title"), PAIRS)
def test_contributions_and_prior_add_up_to_the_score(models, kind, query, title):
    ranker = load_model(models[kind])
    explanation = explain(ranker, query, title)
    data = explanation.to_json()
    assert isinstance(explanation, MatchExplanation)
    assert explanation.name == data["name"] == ranker.name
    assert data["prior"] == ranker.weighted_prior([title])[0] != 0
    assert sum(contributions(data)) + data["prior"] == approx(data["score"], abs=1e-12)
    assert [part["word"] for part in data["text_cosine"]] == explanation.query.words
    cosine = sum(part["contribution"] for part in data["text_cosine"])
    assert data["parts"]["text_cosine"] == approx(cosine, abs=1e-12)
    assert sum(data["parts"].values()) == approx(data["score"], abs=1e-12)
    assert data["score"] == approx(ranker.score(query, [title])[0], abs=1e-6)
    assert data["similarity"] == approx(ranker.similarity_matrix([query], [title])[0, 0], abs=1e-6)


def test_the_worked_example_has_the_sentences_of_the_documentation():
    explanation = explain(example(), "crimson shoe box", "Red shoe, box lid!")
    # Query side: 1.718 * .75, .950 and 1.159, each over 4.119. Title side: .3 times 1.037 * .75,
    # .950 and 1.159, each over 4.796. The pair: .293 / 4.119 + .3 * .293 / 4.796 = .089.
    assert explanation.sentences() == [
        "'crimson' matches 'red' in the title, similarity 0.75 (+0.313).",
        "'box' is in the title (+0.281).",
        "'shoe' is in the title (+0.231).",
        "'shoe box' stands together in both texts (+0.089).",
        "Words of the title that match: 'red' (+0.049), 'shoe' (+0.059), 'box' (+0.073).",
        "Words of the title that match nothing: 'lid'.",
        "Popularity +0.010: the prior minus that of the average clicked title.",
    ]
    # Title side: .3 * (1.037 * .75 + .950 + 1.159) / 4.796 = .1806. Score: 1.0946 - .04 = 1.0546.
    assert explanation.score_breakdown() == (
        "Score 1.055: query words +0.825, title words +0.181, pairs +0.089, prior -0.040"
    )
    assert explanation.notes == []
    lines = [f"{explanation.score_breakdown()}.", *explanation.sentences()]
    assert "".join(f"    {line}\n" for line in lines) in DOCUMENTATION.read_text("utf-8")


def test_a_sentence_names_the_query_words_that_add_to_the_text_cosine():
    explanation = cosine_example()
    assert explanation.score_breakdown() == (
        "Score 1.082: query words +0.500, title words +0.500, text cosine +0.082"
    )
    # The largest part is first. The parts of "a" and "big" are .0001 and -.0005, which round to 0.
    sentence = (
        "Text cosine +0.082, which compares both texts as a whole: 'fridge' (+0.050), "
        "'steel' (+0.032)."
    )
    assert explanation.sentences()[-1] == sentence
    assert f"    {sentence}\n" in DOCUMENTATION.read_text("utf-8")
    assert f"- {sentence}" in markdown(explanation).splitlines()


def test_a_negative_text_cosine_has_a_sentence():
    explanation = cosine_example()
    parts = [CosinePart("fridge", -0.0304), CosinePart("big", 0.0104)]
    explanation = replace(explanation, matches=explanation.matches._replace(text_cosine=parts))
    assert explanation.sentences()[-1] == (
        "Text cosine -0.020, which compares both texts as a whole: 'big' (+0.010), "
        "'fridge' (-0.030)."
    )


def test_opposite_parts_of_a_text_cosine_of_0_are_shown():
    explanation = cosine_example()
    parts = [CosinePart("fridge", -0.03), CosinePart("big", 0.03)]
    explanation = replace(explanation, matches=explanation.matches._replace(text_cosine=parts))
    assert explanation.sentences()[-1] == (
        "Text cosine +0.000, which compares both texts as a whole: 'big' (+0.030), "
        "'fridge' (-0.030)."
    )


def test_the_text_cosine_of_a_model_is_explained_and_adds_up():
    explanation = explain(random_ranker(), "shoe red red", "red running shoe")
    data = explanation.to_json()
    assert [part["word"] for part in data["text_cosine"]] == ["shoe", "red"]
    assert sum(contributions(data)) + data["prior"] == approx(data["score"], abs=1e-12)
    assert data["score"] == approx(
        random_ranker().score("shoe red red", ["red running shoe"])[0], abs=1e-6
    )
    assert data["parts"]["text_cosine"] > 0.01


@pytest.mark.parametrize(
    "query", ["shoe red red", "running box with red lid", "blue shoes for men"]
)
@pytest.mark.parametrize("title", TITLES[:5])
def test_the_shown_parts_of_the_words_add_up_to_the_shown_text_cosine(query, title):
    explanation = explain(random_ranker(), query, title)
    breakdown, sentences = explanation.score_breakdown(), explanation.sentences()
    total = re.search(r"text cosine ([+-]\d\.\d{3})", breakdown)[1]
    (line,) = [line for line in sentences if line.startswith(f"Text cosine {total}, ")]
    shown = {word: float(part) for word, part in re.findall(r"'(\w+)' \((.*?)\)", line)}
    assert sum(shown.values()) == approx(float(total), abs=1e-9)
    exact = {part.word: part.contribution for part in explanation.matches.text_cosine}
    assert exact == approx(dict.fromkeys(exact, 0.0) | shown, abs=0.001)


def test_a_model_without_text_vectors_shows_no_text_cosine():
    explanation = explain(random_ranker(text_cosine=0), "red shoe", "red running shoe")
    data = explanation.to_json()
    assert (data["text_cosine"], data["parts"]["text_cosine"]) == ([], 0)
    shown = [markdown(explanation), explanation.score_breakdown(), *explanation.sentences()]
    assert "cosine" not in "\n".join(shown).lower()
    assert len(figures(explanation)["words"].axes) == 2  # query and title; no pair


def test_a_text_without_known_words_has_no_sentence_about_the_text_cosine():
    explanation = explain(random_ranker(), "777", "red shoe")
    assert explanation.to_json()["text_cosine"] == [{"word": "777", "contribution": 0}]
    assert "cosine" not in "\n".join(explanation.sentences()).lower()


def test_words_of_the_query_that_match_nothing_share_a_sentence():
    # "lid" and "shoe" have opposite vectors; no letter n-gram of "zzz" and "qqq" is known.
    sentence = explain(example(0.0, mean_prior=0.0), "lid", "shoe").sentences()[0]
    assert sentence == "'lid' matches nothing in the title."
    explanation = explain(example(0.0, mean_prior=0.0), "zzz red qqq zzz", "red zzz")
    assert explanation.sentences()[1:] == [
        "'zzz', 'qqq' match nothing in the title.",
        f"Words of the title that match: 'red' ({explanation.title.contribution():+.3f}).",
        "Words of the title that match nothing: 'zzz'.",
    ]
    assert explanation.notes == [
        "The vocabulary has no letter n-gram of 'zzz', 'qqq' in the query.",
        "The vocabulary has no letter n-gram of 'zzz' in the title.",
    ]


def test_without_a_prior_no_popularity_is_shown():
    explanation = explain(example(0.0, mean_prior=0.0), "red", "red")
    # One word: the query side is 1 and the title side .3.
    assert explanation.score_breakdown() == ("Score 1.300: query words +1.000, title words +0.300")
    assert "Popularity" not in markdown(explanation)


def test_a_title_side_without_weight_shows_no_contributions():
    ranker = example()
    ranker.maxsim.side_weights[1] = 0
    sentences = explain(ranker, "crimson", "red lid").sentences()
    assert "Words of the title that match: 'red'." in sentences


@pytest.mark.parametrize(("query", "title", "side"), [("?!", "red", "query"), ("red", "", "title")])
def test_a_text_without_a_word_is_an_error(query, title, side):
    with pytest.raises(UserError, match=f"the {side} .* has no word"):
        explain(example(), query, title)


# --------------------------------------------------------------------------- output


def test_words_of_own_fields_are_shown_without_their_marks(tmp_path):
    titles = ["red shoe␟acme tv", "blue shoe␟acme tv"]
    model = random_model(titles, rules=replace(FOLDED, own_fields=2))
    (tmp_path / "rules.tsv").write_text("similar\tsony\tacme\t0.9\nnever\tshoe\ttv\n", "utf-8")
    rules = read_rules(tmp_path / "rules.tsv", model.vocabulary)
    ranker = MaxSimRanker(SETTINGS, model.with_rules(rules), lambda texts: np.zeros(len(texts)))
    explanation = explain(ranker, "sony shoe zzz␟acme tv 777", titles[0])
    assert "1␟acme" in [match.word for match in explanation.matches.title]
    sentences = explanation.sentences()
    for expected in (
        "'sony' matches 'acme' in the title, similarity 0.90",
        "'shoe' is in the title",
        "'acme' is in the title",
        "'acme tv' stands together in both texts",
        "the similarity of 'sony' and 'acme' is 0.90",
    ):
        assert any(expected in sentence for sentence in sentences), expected
    assert explanation.notes == [
        "The vocabulary has no letter n-gram of 'sony', 'zzz', '777' in the query."
    ]
    (figure,) = figures(explanation).values()
    labels = [label.get_text() for axis in figure.axes for label in axis.get_yticklabels()]
    assert labels[-7:] == ["acme tv", *explanation.query.words]
    data = explanation.to_json()
    assert [part["word"] for part in data["text_cosine"]] == explanation.query.words
    assert data["title"]["words"][2]["word"] == "acme"
    assert [pair["pair"] for pair in data["pairs"]] == ["acme tv"]
    shown = [*sentences, *explanation.notes, markdown(explanation), *labels]
    assert "␟" not in "\n".join([*shown, json.dumps(data, ensure_ascii=False)])


def test_markdown_has_a_row_per_word_and_the_sentences():
    explanation = explain(example(), "crimson shoe box", "Red shoe, box lid!")
    lines = markdown(explanation).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert rows[0] == ["query", "matches", "similarity", "adds", "adds at most"]
    assert [cell[0] + cell[-1] for cell in rows[1]] == [":-", ":-", "-:", "-:", "-:"]  # alignment
    assert rows[2] == ["crimson", "red", "0.75", "+0.313", "+0.417"]
    assert rows[-1] == ["lid", "-", "0.00", "+0.000", "+0.085"]
    sentences = [f"{explanation.score_breakdown()}.", *explanation.sentences(), explanation.method]
    assert lines[-len(sentences) :] == [f"- {sentence}" for sentence in sentences]


def test_the_figure_shows_contributions_of_words_and_pairs_and_their_upper_limits():
    explanation = explain(example(), "crimson shoe box", "Red shoe, box lid!")
    (figure,) = figures(explanation).values()
    query, title, pairs = figure.axes
    for axis, side in ((query, explanation.query), (title, explanation.title)):
        assert [label.get_text() for label in axis.get_yticklabels()] == side.words
        parts = side.matches
        assert [bar.get_width() for bar in axis.patches] == approx([p.contribution for p in parts])
        assert axis.lines[0].get_xdata() == approx([p.weight for p in parts])
    assert [label.get_text() for label in pairs.get_yticklabels()] == ["shoe box"]
    assert pairs.patches[0].get_width() == approx(0.089, abs=5e-4)
    assert len(figures(explain(example(), "red", "red"))["words"].axes) == 2  # no pair


def test_the_figure_shows_the_parts_of_the_text_cosine_without_upper_limits():
    (figure,) = figures(cosine_example()).values()
    cosine = figure.axes[-1]
    assert (cosine.get_title(), len(figure.axes)) == ("text cosine", 3)
    labels = [label.get_text() for label in cosine.get_yticklabels()]
    assert labels == ["steel", "big", "fridge", "zzz", "a"]
    widths = [bar.get_width() for bar in cosine.patches]
    assert widths == approx([0.0324, -0.0005, 0.050, 0, 0.0001])
    assert np.isnan(cosine.lines[0].get_xdata()).all()


@pytest.mark.parametrize("kind", ["run", "compact"])
def test_the_command_prints_and_writes_the_explanation(models, kind, tmp_path, capsys):
    texts = ["--query", "red fox zzz", "--title", "the red fox"]
    command = ["explain", "--model", str(models[kind]), *texts]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "- 'red' is in the title (+" in text
    assert "- 'zzz' matches nothing in the title." in text
    for word in ("gate", "cell", "neuron", "activation", "keyword", "Shapley", "layer"):
        assert word not in text
    assert main([*command, "--json", "--out", str(tmp_path / "out")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads((tmp_path / "out" / "explanation.json").read_text("utf-8"))
    assert sum(contributions(data)) + data["prior"] == approx(data["score"], abs=1e-12)
    assert f"- Score {data['score']:.3f}: " in text
    report = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert text.strip() in report


def test_a_saved_model_is_refused_in_one_line(models, capsys):
    texts = ["--query", "red fox", "--title", "the red fox"]
    assert main(["explain", "--model", str(models["saved"]), *texts]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "dssm explain: shop is a SavedModel with the score maxsim, which does not return the parts "
        "of a score; explain the run, or its compact model (dssm export --format compact)."
    )
