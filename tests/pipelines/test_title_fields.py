"""Titles of several columns, through preprocess."""

from __future__ import annotations

LOG = (
    "query\tbrand\ttitle\tcategory\n"
    "halo\tMicrosoft\tHalo: Reach\tGames\n"
    "xbox\tMicrosoft\tXbox\t\n"
    "reach\tmicrosoft\tHALO reach\tgames\n"
)
CORPUS = "doc_id\tcategory\ttitle\tBrand\n1\tGames\tHalo 4\tMicrosoft\n"
FLAGS = ("--validation-fraction", "0", "--title-fields", "title,brand,category")


def test_a_title_has_its_fields_in_the_order_of_the_flag(run, write):
    data = run(*FLAGS, "--corpus", str(write("corpus.tsv", CORPUS)), log=LOG)
    clicked = {"HALO reach␟microsoft␟games": 2, "Xbox␟Microsoft": 1}
    clicks = {text: clicks for text, (clicks, _) in data.titles.items()}
    assert clicks == clicked | {"Halo 4␟Microsoft␟Games": 0}
    assert {record.titles[0] for record in data.records()} == {*clicked}
    assert data.spec.title_fields == ("title", "brand", "category")
    assert not any("␟" in ngram for ngram in data.vocabulary.ngrams)
    assert {"halo", "microsoft", "games"} < {*data.words}


def test_separate_ngrams_of_a_brand_differ_from_those_of_a_query(run):
    data = run(*FLAGS, "--field-rows", "own", log=LOG)
    assert {"#xb", "1␟#mi", "2␟#ga", "1␟~#im"} <= {*data.vocabulary.ngrams}
    assert not {"#mi", "1␟#xb", "#ga"} & {*data.vocabulary.ngrams}
    assert {"halo", "1␟microsoft", "2␟games"} < {*data.words}
    assert data.words["2␟games"] == data.vocabulary.ngram_ids("2␟games")


def test_a_missing_field_a_separator_in_a_text_and_too_few_fields_are_refused(error_of_run, write):
    corpus = write("corpus.tsv", "doc_id\ttitle\tbrand\n1\tHalo\tX\n")
    assert "missing: category" in error_of_run(*FLAGS, "--corpus", str(corpus), log=LOG)
    assert "missing: brand, category" in error_of_run(*FLAGS, log="query\ttitle\na\tb\n")
    error = error_of_run(*FLAGS, log="query\ttitle\tbrand\tcategory\na\tb\tc␟d\te\nf␟g\th\ti\tj\n")
    assert "␟ in brand" in error
    assert "␟ in query" in error
    message = "--field-rows own is for 2 to 6 fields; --title-fields names 1"
    assert message in error_of_run("--field-rows", "own", log=LOG, code=2)
