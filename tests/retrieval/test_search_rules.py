"""Rules by hand in an index: similar words, words that never match, pinned and blocked titles."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.common.errors import UserError
from dssm_tf.export.compact import set_search_rules_from_file
from dssm_tf.retrieval.opening import open_index
from dssm_tf.runtime import load
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.server.page import render
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.runtime.maxsim_models import TITLES, random_model, write_compact_model

pytest.importorskip("numba")

RULES = """\
# reviewed by the search team
similar\tsandal\tshoe\t0.9
never\tred\tshoe
similar\tonion\tlids\t0.25
never\tunheard\tof

pin\tRed shoe!\td5
pin\tred shoe\tWALLA walla onion
block\tred shoe\td0
pin\tred shoe\tno such title
"""
"""d5 is "blue lids, box", d0 "red running shoe" and d3 "walla walla onion"."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, a corpus, rules and an index with them. Tests must not change them."""
    folder = tmp_path_factory.mktemp("rules")
    write_compact_model(random_model(), folder / "model", {"shoe box": -1.5})
    titles = ["red running shoe", "Red Shoe, red box", "running shoes for men", "walla walla onion"]
    titles += ["shoe box", "blue lids, box", "walla onion"]
    corpus = [CorpusTitle(f"d{row}", title) for row, title in enumerate(titles)]
    write_corpus(folder / "corpus.tsv", corpus)
    (folder / "rules.tsv").write_text(RULES, "utf-8")
    flags = ["--model", folder / "model", "--corpus", folder / "corpus.tsv", "--out"]
    rules = ["--rules", folder / "rules.tsv"]
    assert main(["index", *map(str, [*flags, folder / "index", *rules])]) == 0
    return folder


@pytest.fixture(scope="module")
def index(folder):
    return open_index(folder / "index")


def hits_of(index, query, k=10):
    return index.search(query, k).rankings["semantic"]


def test_the_command_names_the_lines_that_change_nothing(folder, index):
    assert index.summary.endswith(
        "; 8 rules, of which 2 name no word or title of the corpus (line 5, 10)"
    )


def test_search_equals_the_model_with_the_rules_and_not_without(folder, index):
    with_rules = load(folder / "index" / "model")
    learned = load(folder / "model")
    for query in ["sandal", "red", "onion", "sandal red", "red shoe now"]:
        hits = hits_of(index, query)
        titles = [hit.title for hit in hits]
        expected = with_rules.score(query, titles)
        assert [hit.score for hit in hits] == approx(expected.tolist(), abs=1e-6)
        assert np.abs(expected - learned.score(query, titles)).max() > 1e-3
        assert [hit.matches.score + hit.prior for hit in hits] == approx(
            expected.tolist(), abs=1e-6
        )


def test_a_word_is_found_by_a_rule_only(index):
    """The letters of "sandal" are similar to other words; the rule's similarity is 0.9."""
    (hit,) = [hit for hit in hits_of(index, "sandal") if hit.title == "shoe box"]
    (match,) = hit.matches.query
    assert (match.matched_word, match.similarity) == ("shoe", 0.9)
    assert "sandal → shoe .90 by rule in line 2" in hit.score_breakdown()


def test_words_that_never_match_are_named(index):
    titles = {hit.title: hit for hit in hits_of(index, "red")}
    assert "shoe box" not in titles  # "shoe" is the most similar other word
    assert "red not shoe by rule in line 3" in titles["red running shoe"].score_breakdown()


def test_pinned_titles_come_first_in_their_order_and_blocked_ones_are_left_out(folder, index):
    result = index.search("RED  shoe", 3)
    hits = result.rankings["semantic"]
    assert [hit.doc_id for hit in hits][:2] == ["d5", "d3"]
    assert [hit.pin_rule and hit.pin_rule.line for hit in hits] == [7, 8, None]
    everything = [hit.doc_id for hit in hits_of(index, "red shoe")]
    assert sorted(everything) == ["d1", "d2", "d3", "d4", "d5", "d6"]
    assert result.blocked == ["Blocked by line 9 of the rules: d0 red running shoe."]
    score = load(folder / "index" / "model").score("red shoe", ["blue lids, box"])[0]
    assert hits[0].score == approx(score, abs=1e-6)
    assert hits[0].score_breakdown().startswith("pinned by rule in line 7, score ")
    assert [hit.doc_id for hit in hits_of(index, "red shoe", 1)] == ["d5"]
    assert "d0" in [hit.doc_id for hit in hits_of(index, "red shoe now")]


def test_a_filter_holds_for_pinned_titles(index):
    allowed = index.filter([True, True, True, True, True, False, True])
    hits = index.search("red shoe", 2, allowed).rankings["semantic"]
    assert [hit.doc_id for hit in hits] == ["d3", hits[1].doc_id]
    assert hits[1].pin_rule is None


def test_terminal_page_and_explanation_show_the_rules(folder, index, capsys):
    assert main(["search", "--index", str(folder / "index"), "red shoe"]) == 0
    printed = capsys.readouterr().out
    assert "d5: pinned by rule in line 7" in printed
    assert "Blocked by line 9 of the rules: d0 red running shoe." in printed
    page = render(index, "red shoe", "d3", "semantic")
    assert "pinned by rule in line 8" in page
    assert "Line 8 of the rules pins this title for the query." in page
    assert "Blocked by line 9" in page
    command = ["explain", "--model", folder / "model", "--rules", folder / "rules.tsv", "--json"]
    assert main([*map(str, command), "--query", "red", "--title", "shoe lid"]) == 0
    explanation = json.loads(capsys.readouterr().out)
    (rule,) = explanation["rules"]
    assert (rule["query_word"], rule["title_word"]) == ("red", "shoe")
    assert (rule["similarity"], rule["line"]) == (0, 3)
    assert any("By line 3 of the rules" in sentence for sentence in explanation["sentences"])
    words = [*explanation["query"]["words"], *explanation["title"]["words"]]
    parts = [*words, *explanation["pairs"], *explanation["text_cosine"]]
    total = sum(part["contribution"] for part in parts)
    assert total + explanation["prior"] == approx(explanation["score"])


def test_search_with_an_index_takes_other_rules(folder, tmp_path, capsys):
    (tmp_path / "rules.tsv").write_text("pin\twalla\td2\n", "utf-8")
    flags = ["--index", str(folder / "index"), "--format", "tsv"]
    assert main(["search", *flags, "--rules", str(tmp_path / "rules.tsv"), "walla"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[3] == "d2"
    assert main(["search", *flags, "walla"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[3] != "d2"


def test_search_with_a_model_takes_rules_and_prints_the_same(folder, capsys):
    assert main(["search", "--index", str(folder / "index"), "red shoe"]) == 0
    expected = capsys.readouterr().out
    flags = ["--model", folder / "model", "--corpus", folder / "corpus.tsv"]
    rules = ["--rules", folder / "rules.tsv"]
    assert main(["search", *map(str, [*flags, *rules]), "red shoe"]) == 0
    assert capsys.readouterr().out == expected


def test_an_empty_file_changes_nothing_and_replaces_the_rules_of_a_model(folder, tmp_path):
    (tmp_path / "none.tsv").write_text("# no rule yet\n", "utf-8")
    model = folder / "index" / "model"  # it has rules
    flags = ["--model", model, "--corpus", folder / "corpus.tsv", "--out", tmp_path / "index"]
    assert main(["index", *map(str, flags), "--rules", str(tmp_path / "none.tsv")]) == 0
    index = open_index(tmp_path / "index")
    titles = [hit.title for hit in hits_of(index, "red shoe")]
    expected = load(folder / "model").score("red shoe", titles)
    assert [hit.score for hit in hits_of(index, "red shoe")] == approx(expected.tolist(), abs=1e-6)
    assert "rules" not in index.summary


def test_changed_or_missing_rules_are_errors(folder, tmp_path):
    write_compact_model(random_model(), tmp_path / "model", {"shoe box": -1.5})
    set_search_rules_from_file(tmp_path / "model", folder / "rules.tsv")
    assert len(load(tmp_path / "model").search_rules) == 8
    (tmp_path / "model" / "rules.tsv").write_text(RULES.replace("0.9", "0.8"), "utf-8")
    with pytest.raises(UserError, match=r"rules\.tsv is damaged or was changed"):
        load(tmp_path / "model")
    (tmp_path / "model" / "rules.tsv").unlink()
    with pytest.raises(UserError, match=r"rules\.tsv does not exist"):
        load(tmp_path / "model")


def test_learned_words_are_written_as_rules_that_change_nothing_but_digits(folder, tmp_path):
    out = tmp_path / "learned.tsv"
    command = ["export", "--model", folder / "model", "--format", "rules", "--out", out]
    assert main([*map(str, command)]) == 0
    model = load(folder / "model")
    rules = read_rules(out, model.vocabulary)
    assert rules.words
    assert all(rule.similarity >= 0.5 for rule in rules.words)
    for query in ["red shoe", "onion"]:
        scores = model.with_rules(rules).score(query, TITLES)
        assert scores == approx(model.score(query, TITLES), abs=2e-3)
    assert main([*map(str, command)]) == 1
