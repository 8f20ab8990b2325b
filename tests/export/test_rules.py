"""`dssm export --rules`: rules by hand in compact models and exports for search engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.runtime import MaxSimRanker, load
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from tests.clicks import click_log, write_data
from tests.runs import finished_run

CONFIG = {
    "tower": {"name": "words", "units": 6},
    "score": {"name": "maxsim"},
    "shared_towers": True,
    "whole_words": True,
}
RULES = """\
# of the search team
similar\tgf\tfox\t0.9
never\tred\tfoxes
pin\tRed, fox!\tblue owl
block\tred fox\ts3
"""
CORPUS = "doc_id\ttitle\ns1\tred fox\ns2\tBlue Owl!\ns3\tred foxes\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ruled")
    data = write_data(folder / "data", click_log(), validation=(), negatives=1)
    return finished_run(folder / "run", data, CONFIG, 0.25)


@pytest.fixture
def export(run, tmp_path, capsys):
    """Returns a function that runs `dssm export` in a directory with rules and a corpus."""
    (tmp_path / "rules.tsv").write_text(RULES, "utf-8")
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")

    def run_command(arguments: str, model: Path = run) -> tuple[int, str]:
        named = arguments.replace("FOLDER", str(tmp_path)).split()
        code = main(["export", "--model", str(model), *named])
        return code, capsys.readouterr().err

    return run_command


def test_a_compact_model_scores_by_the_rules(run, export, tmp_path):
    flags = "--out FOLDER/out --format compact --name shop --rules FOLDER/rules.tsv"
    assert export(flags) == (0, "")
    assert (tmp_path / "out" / "shop" / "1" / "rules.tsv").read_text("utf-8") == RULES
    ranker = load(tmp_path / "out" / "shop")
    assert isinstance(ranker, MaxSimRanker)
    assert len(ranker.search_rules) == 4
    (match,) = ranker.word_matches("gf", "fox").query
    assert (match.matched_word, match.similarity) == ("fox", 0.9)
    assert ranker.score("red", ["foxes"])[0] == approx(ranker.weighted_prior(["foxes"])[0])
    assert export("--out FOLDER/plain --format compact --name shop") == (0, "")
    plain = load(tmp_path / "plain" / "shop")
    assert plain.score("gf", ["fox"])[0] < ranker.score("gf", ["fox"])[0]


def test_an_export_for_search_engines_has_the_rules(export, tmp_path):
    flags = "--out FOLDER/out --format opensearch --corpus FOLDER/corpus.tsv"
    assert export(f"{flags} --rules FOLDER/rules.tsv") == (0, "")
    folder = tmp_path / "out" / "maxsim" / "1"
    client = SearchEngineClient(folder)
    assert client.word("gf").similar["fox"] == approx(0.9)
    assert client.word("fox").similar["gf"] == approx(0.9)
    assert "foxes" not in client.word("red").similar
    # The text of a title is replaced by its id in the corpus.
    placed = {"red fox": {"pinned": ["s2"], "blocked": ["s3"]}}
    assert json.loads((folder / "title_rules.json").read_bytes()) == placed
    assert '"_name": "pinned 1"' in json.dumps(client.query("RED fox"))
    assert "pinned" not in json.dumps(client.query("fox red"))
    assert (folder / "model" / "rules.tsv").read_text("utf-8") == RULES


def test_without_a_corpus_titles_of_rules_are_ids(export, tmp_path):
    assert export("--out FOLDER/out --format opensearch --rules FOLDER/rules.tsv") == (0, "")
    placed = json.loads((tmp_path / "out" / "maxsim" / "1" / "title_rules.json").read_bytes())
    assert placed == {"red fox": {"pinned": ["blue owl"], "blocked": ["s3"]}}


def test_other_rules_replace_those_of_a_compact_model(export, tmp_path):
    assert export("--out FOLDER/compact --format compact --rules FOLDER/rules.tsv") == (0, "")
    model = tmp_path / "compact" / "maxsim"
    assert export("--out FOLDER/same --format opensearch", model) == (0, "")
    same = SearchEngineClient(tmp_path / "same" / "maxsim" / "1")
    assert same.word("gf").similar["fox"] == approx(0.9)
    (tmp_path / "rules.tsv").write_text("similar\tgf\tfox\t0.25\n", "utf-8")
    flags = "--out FOLDER/other --format opensearch --rules FOLDER/rules.tsv"
    assert export(flags, model) == (0, "")
    other = SearchEngineClient(tmp_path / "other" / "maxsim" / "1")
    assert other.word("gf").similar["fox"] == approx(0.25)
    assert other.title_rules == {}


@pytest.mark.parametrize("form", ["compact", "opensearch"])
@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("similar\tgf\tfox\n", "rules.tsv:1: the rule has the cells ['similar', 'gf', 'fox']; exp"),
        ("\nsimilar\tgf\tfox\t2\n", "rules.tsv:2: the similarity is '2'; expected a number above"),
        ("never\tred\tfox\nnever\tfox\tRED\n", "rules.tsv:2: line 1 is about 'fox' and 'red' al"),
        ("hide\tred\tfox\n", "rules.tsv:1: 'hide' is no kind of rule; expected similar, never,"),
        (None, "rules.tsv cannot be read: No such file or directory."),
    ],
)
def test_a_wrong_rule_is_one_line_and_nothing_is_written(export, tmp_path, form, rules, message):
    (tmp_path / "rules.tsv").unlink()
    if rules is not None:
        (tmp_path / "rules.tsv").write_text(rules, "utf-8")
    code, error = export(f"--out FOLDER/out --format {form} --rules FOLDER/rules.tsv")
    assert code == 1
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["saved_model", "rules"])
def test_rules_are_refused_for_other_formats(export, tmp_path, form):
    code, error = export(f"--out FOLDER/out --format {form} --rules FOLDER/rules.tsv")
    assert (code, error.count("\n")) == (1, 1)
    assert "--rules is for --format compact and opensearch." in error
    assert not (tmp_path / "out").exists()


def test_rules_are_refused_for_a_model_with_vectors(export, tmp_path):
    data = write_data(tmp_path / "data", click_log(), validation=())
    run = finished_run(tmp_path / "run", data, {"tower": {"name": "dssm", "widths": [8, 6]}})
    code, error = export("--out FOLDER/out --format compact --rules FOLDER/rules.tsv", run)
    assert code == 1
    assert "rules are for models with the score maxsim, and this one has the score cosine" in error
    assert not (tmp_path / "out").exists()
