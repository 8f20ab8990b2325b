"""Titles of several columns, through preprocess."""

from __future__ import annotations

from pipelines import preprocess

LOG = (
    "query\tbrand\ttitle\tcategory\n"
    "halo\tMicrosoft\tHalo: Reach\tGames\n"
    "xbox\tMicrosoft\tXbox\t\n"
    "reach\tmicrosoft\tHALO reach\tgames\n"
)
CORPUS = "doc_id\tcategory\ttitle\tBrand\n1\tGames\tHalo 4\tMicrosoft\n"
ALL = ("--validation-fraction", "0", "--title-fields", "title,brand,category")


def failure(tmp_path, capsys, log, *flags, name="log.tsv"):
    """The one line that preprocess ends with."""
    (tmp_path / name).write_text(log, "utf-8")
    out = tmp_path / "out"
    assert preprocess.run(["--input", str(tmp_path / name), "--output", str(out), *flags]) == 1
    assert not out.exists()
    return capsys.readouterr().err


def test_a_title_is_its_columns_in_the_order_they_were_named(run, tmp_path):
    (tmp_path / "corpus.tsv").write_text(CORPUS, "utf-8")
    data = run(LOG, *ALL, "--corpus", str(tmp_path / "corpus.tsv"))
    assert {text: clicks for text, (clicks, _) in data.titles.items()} == {
        "HALO reach␟microsoft␟games": 2,
        "Xbox␟Microsoft": 1,
        "Halo 4␟Microsoft␟Games": 0,
    }
    assert {record.titles[0] for record in data.records()} == {*data.titles} - {
        "Halo 4␟Microsoft␟Games"
    }
    assert data.spec.title_fields == ("title", "brand", "category")
    assert all(len(ngram) == 3 for ngram in data.vocabulary.ngrams)
    assert {"halo", "microsoft", "games"} < {*data.words}


def test_own_rows_tell_the_trigrams_of_a_brand_from_those_of_a_query(run):
    data = run(LOG, *ALL, "--field-rows", "own")
    assert {"#xb", "1#mi", "2#ga"} <= {*data.vocabulary.ngrams}
    assert not {"#mi", "1#xb", "#ga"} & {*data.vocabulary.ngrams}
    assert {"halo", "1␟microsoft", "2␟games"} < {*data.words}
    assert tuple(data.words["2␟games"]) == data.vocabulary.ngram_ids("2␟games")


def test_a_column_that_is_missing_is_named(tmp_path, capsys):
    (tmp_path / "corpus.tsv").write_text("doc_id\ttitle\tbrand\n1\tHalo\tX\n", "utf-8")
    corpus = ("--corpus", str(tmp_path / "corpus.tsv"))
    assert "missing: category" in failure(tmp_path, capsys, LOG, *ALL, *corpus)
    assert "missing: brand, category" in failure(tmp_path, capsys, "query\ttitle\na\tb\n", *ALL)


def test_the_separator_inside_a_text_is_a_bad_row(tmp_path, capsys):
    log = "query\ttitle\tbrand\tcategory\na\tb\tc␟d\te\nf␟g\th\ti\tj\n"
    error = failure(tmp_path, capsys, log, *ALL)
    assert "␟ in brand" in error
    assert "␟ in query" in error


def test_own_rows_of_one_field_are_refused(tmp_path, capsys):
    assert preprocess.run(["--input", "x", "--output", "y", "--field-rows", "own"]) == 2
    assert (
        "--field-rows own is for 2 to 6 fields; --title-fields names 1" in capsys.readouterr().err
    )
