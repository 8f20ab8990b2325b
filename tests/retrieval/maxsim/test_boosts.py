"""Stored columns: filters and boosts of a search, in Python, terminal, files and search API."""

from __future__ import annotations

import json
import re
from math import log1p
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import feather
from pytest import approx

from dssm_tf.cli import main
from dssm_tf.common.checksums import CHECKSUMS, files_in, write_checksums
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval.hits import NO_GOOD_MATCH_NOTE
from dssm_tf.retrieval.maxsim_index import MaxSimIndex
from dssm_tf.retrieval.opening import open_index, store_columns
from dssm_tf.retrieval.remember import remember_clicks
from dssm_tf.retrieval.title_columns import describe_columns, is_numeric
from dssm_tf.retrieval.title_filters import parse_filters
from dssm_tf.runtime.boosts import parse_boosts
from dssm_tf.server.limits import Refusal
from dssm_tf.server.search_api import parse_json, parse_parameters
from dssm_tf.server.search_api import search as search_by_api
from dssm_tf.tables.click_log import LogRow, log_frame
from dssm_tf.tables.judgments import CorpusTitle, read_catalog
from tests.retrieval.maxsim.conftest import CORPUS, hits_of, ids

SALES = ["0", "3", "99", "", "7.5", "1e3", "0", "2", "50", "8", "400"]
PRICES = ["10", "49.90", "50", "50.01", "", "7", "200", "60", "20", "30", "5"]
BRANDS = ["Acme", "Bolt", "ÁCME", "", "Bolt", "Acme", "Zed", "Zed", "Zed", "Zed", "Bolt"]
COLUMNS = {"sales": SALES, "price": PRICES, "brand": BRANDS}
QUERIES = ["red shoe", "shoe box lid", "runing shoez", "walla walla"]


@pytest.fixture(scope="module")
def shop(ranker) -> MaxSimIndex:
    index = MaxSimIndex.build(ranker, CORPUS)
    store_columns(index, COLUMNS)
    return index


def boost_of(entry: int, weight: float) -> float:
    return weight * log1p(float(SALES[entry])) if SALES[entry] else 0.0


@pytest.mark.long
def test_a_boost_adds_its_weight_times_the_log_of_one_plus_the_number(shop):
    number = {entry.doc_id: row for row, entry in enumerate(CORPUS)}
    for query in QUERIES:
        for weight in (0.05, 3.0, -0.2):
            plain = {hit.doc_id: hit.score for hit in hits_of(shop, query, k=20)}
            expected = {
                doc_id: score + boost_of(number[doc_id], weight) for doc_id, score in plain.items()
            }
            hits = hits_of(shop, query, k=20, boosts={"sales": weight})
            assert {hit.doc_id: hit.score for hit in hits} == approx(expected, abs=1e-6)
            assert ids(hits) == sorted(ids(hits), key=lambda doc_id: -expected[doc_id])
            for hit in hits:
                assert sum(hit.exact_parts().values()) == approx(hit.score, abs=1e-6)
                assert hit.exact_parts()["boost_sales"] == approx(
                    boost_of(number[hit.doc_id], weight)
                )


def test_the_best_entries_are_found_even_if_few_titles_are_scored_in_full(ranker):
    index = MaxSimIndex.build(ranker, CORPUS, rescored=1)
    store_columns(index, COLUMNS)
    for query in QUERIES:
        every = hits_of(index, query, k=20, boosts={"sales": 3.0})
        for k in (1, 2, 3):
            assert ids(hits_of(index, query, k=k, boosts={"sales": 3.0})) == ids(every)[:k]


def test_entries_of_one_title_have_their_own_boosts(ranker):
    # "Red Shoe, red box" and "RED shoe, red: box" are one title for the model.
    index = MaxSimIndex.build(ranker, [CORPUS[1], CORPUS[10], CORPUS[5]])
    store_columns(index, {"sales": ["1", "20", "5"]})
    hits = hits_of(index, "red shoe", boosts={"sales": 5.0})
    assert ids(hits) == ["d10", "d5", "d1"]
    only = index.filter([True, False, False])
    (hit,) = hits_of(index, "red shoe", boosts={"sales": 5.0}, allowed=only)
    assert hit.exact_parts()["boost_sales"] == approx(5 * log1p(1))


def test_remembered_clicks_do_not_depend_on_boosts(shop):
    rows = log_frame(LogRow("red shoe", CORPUS[row].title, 12) for row in (0, 5))
    clicks = remember_clicks(shop, rows).clicks
    index = shop.with_remembered_clicks(clicks._replace(mu=3.0))
    plain = {hit.doc_id: hit.remembered_score for hit in hits_of(index, "red shoe", k=20)}
    assert any(plain.values())
    boosted = hits_of(index, "red shoe", k=20, boosts={"sales": 2.0})
    assert {hit.doc_id: hit.remembered_score for hit in boosted} == approx(plain)
    assert [hit.score for hit in boosted] == sorted((hit.score for hit in boosted), reverse=True)


def test_shown_parts_name_the_boost_and_add_up(shop):
    (hit, *_) = hits_of(shop, "red shoe", boosts={"sales": 0.5})
    assert "boost sales +" in hit.score_breakdown()
    assert sum(hit.parts().values()) == approx(round(hit.score, 3))


def test_a_range_excludes_titles_outside_of_it_and_titles_without_a_number(shop):
    def allowed(filters) -> list[int]:
        return np.flatnonzero(shop.filters.mask(filters)).tolist()

    # Rows with a price of at most 50: 10, 49.90, 50, 7, 20, 30, 5.
    assert allowed({"price": {"lte": 50}}) == [0, 1, 2, 5, 8, 9, 10]
    assert allowed({"price": {"lt": 50}}) == [0, 1, 5, 8, 9, 10]
    assert allowed({"price": {"gte": 50, "lt": 60}}) == [2, 3]
    assert allowed({"price": [50, 7]}) == [2, 5]
    assert allowed({"price": ["50.0"]}) == [2]
    assert allowed({"doc_id": ["d3", 7.0]}) == [3]
    # Upper case and accents do not matter; an empty text is a missing one.
    assert allowed({"brand": ["acme"]}) == [0, 2, 5]
    assert allowed({"brand": [""]}) == [3]
    assert allowed({"brand": ["acme", "bolt"], "price": {"lt": 11}}) == [0, 5, 10]
    found = ids(hits_of(shop, "red shoe", k=20, filters={"price": {"lte": 50}}))
    assert {*found} <= {f"d{row}" for row in allowed({"price": {"lte": 50}})}


@pytest.mark.parametrize("number", [1234567, 20240131.0, 2**53 - 1, -1234567])
def test_a_filter_by_a_numeric_id_of_seven_digits_finds_its_title(ranker, number):
    titles = [CorpusTitle(str(int(number)), "red shoe"), CorpusTitle("1", "red box")]
    index = MaxSimIndex.build(ranker, titles)
    store_columns(index, {"sku": [f"{number:.0f}", "A1"]})
    for field in ("doc_id", "sku"):
        assert index.filters.mask({field: [number]}).tolist() == [True, False]
        request = parse_json(json.dumps({"query": "red", "filters": {field: [number]}}).encode())
        assert [hit.doc_id for hit in search_by_api(index, 1, request).results] == [
            titles[0].doc_id
        ]


@pytest.mark.parametrize("number", [1.5, 1e-7, 1234567.25, 0.1])
def test_a_filter_by_a_fraction_finds_its_text(ranker, number):
    index = MaxSimIndex.build(ranker, CORPUS[:2])
    store_columns(index, {"size": [repr(number), "large"]})
    assert index.filters.mask({"size": [number]}).tolist() == [True, False]


@pytest.mark.parametrize("number", [2.0**53, 12345678901234567000.0, -(2.0**60), 1e300])
def test_a_filter_by_an_id_that_a_double_cannot_hold_is_refused(shop, number):
    for field in ("doc_id", "brand"):
        with pytest.raises(
            UserError, match=r"has the value .*; give ids of 16 or more digits as text"
        ):
            shop.filters.mask({field: [number]})


def test_a_filter_by_a_long_id_of_python_finds_its_title(ranker):
    index = MaxSimIndex.build(ranker, CORPUS[:2])
    store_columns(index, {"sku": [str(2**53 + 1), str(2**53)]})
    assert index.filters.mask({"sku": [2**53 + 1]}).tolist() == [True, False]


def test_a_boost_shows_all_digits_of_its_number(ranker):
    index = MaxSimIndex.build(ranker, CORPUS[:2])
    store_columns(index, {"sales": ["1234567", "7"], "margin": ["1", "-1234567"]})
    assert "The sales 1234567 adds" in str(index.boosts.of_entry({"sales": 0.02}, 0)[0])
    with pytest.raises(UserError, match="the negative number -1234567 for"):
        index.search("red shoe", boosts={"margin": 0.02})


@pytest.mark.parametrize(
    ("cells", "accepted"),
    [
        (["007", "7", ""], "007"),
        (["+07.5", "7.5", ""], "+07.5"),
        (["-01", "-1", ""], "-01"),
        (["12345678901234567", "12345678901234568", ""], "12345678901234568"),
        (["-9007199254740993", "-9007199254740992", ""], "-9007199254740993"),
        (["9007199254740993.0", "9007199254740992.0", ""], "9007199254740993.0"),
    ],
)
def test_a_stored_column_with_leading_zeros_or_long_ids_has_texts(ranker, cells, accepted):
    index = MaxSimIndex.build(ranker, CORPUS[:3])
    store_columns(index, {"sku": cells})
    assert describe_columns(index.title_table) == f"; stored: sku (texts, such as {cells[0]!r})"
    assert index.filters.mask({"sku": [accepted]}).tolist() == [cell == accepted for cell in cells]


@pytest.mark.parametrize("cells", [["0", "0.5", "-0.5", "+0", ""], ["0e3", "1e3", "1e300"]])
def test_a_zero_before_a_point_and_large_measurements_are_numbers(ranker, cells):
    index = MaxSimIndex.build(ranker, CORPUS[: len(cells)])
    store_columns(index, {"sales": cells})
    assert is_numeric(index.title_table, "sales")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boosts": {"color": 1.0}}, "boosts: 'color' is not a stored column of this index; "
         "expected one of sales, price."),
        ({"boosts": {"brand": 1.0}}, "boosts: the column 'brand' has texts, such as 'Acme' of "
         "doc_id 'd0'; expected numbers"),
        ({"boosts": {"sales": 1e9}}, "the weight of 'sales' is 1000000000.0; expected"),
        ({"filters": {"color": {"lt": 1}}}, "filters: 'color' is not a field of this index"),
        ({"filters": {"brand": {"lt": 1}}}, "filters: the column 'brand' has texts, such as"),
        ({"filters": {"title": {"lt": 1}}}, "filters: 'title' is not a stored column with numbers"),
        ({"filters": {"price": ["cheap"]}}, "filters: 'price' is 'cheap'; expected a number."),
        ({"filters": {"price": {"below": 1}}}, "'price' has 'below'; expected lt, lte, gt, gte."),
    ],
)  # fmt: skip
def test_wrong_filters_and_boosts_are_errors(shop, options, message):
    with pytest.raises(UserError, match=re.escape(message)):
        shop.search("red shoe", **options)


def test_a_column_with_a_negative_number_has_no_boost(ranker):
    index = MaxSimIndex.build(ranker, CORPUS)
    store_columns(index, {"margin": ["1", "-2.5", *["3"] * 9]})
    with pytest.raises(UserError, match=r"'margin' has the negative number -2\.5 for doc_id 'd1'"):
        index.search("red shoe", boosts={"margin": 1.0})
    assert len(index.search("red shoe", filters={"margin": {"lt": 0}}).rankings["semantic"]) <= 1


def test_a_boost_does_not_make_a_good_match(shop, ranker):
    ranker.cutoff, cutoff = 5.0, ranker.cutoff
    try:
        assert shop.search("reds shoez", boosts={"sales": 100.0}).note == NO_GOOD_MATCH_NOTE
    finally:
        ranker.cutoff = cutoff


def test_a_saved_index_has_its_columns(shop, model_directory, tmp_path):
    shop.save(tmp_path / "index", model_directory)
    opened = open_index(tmp_path / "index")
    options = {"boosts": {"sales": 0.3}, "filters": {"price": {"lte": 50}, "brand": ["acme"]}}
    expected = shop.search("red shoe", **options)
    received = opened.search("red shoe", **options)
    assert [(hit.doc_id, hit.score) for hit in received.rankings["semantic"]] == [
        (hit.doc_id, hit.score) for hit in expected.rankings["semantic"]
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pyarrow.array([np.inf] * 11), "a number of 'sales' is not finite"),
        (pyarrow.array([1] * 11), "expected texts in"),
        (pyarrow.array([None] * 11, pyarrow.string()), "a text is missing"),
    ],
)
def test_damaged_columns_are_refused(shop, model_directory, tmp_path, column, message):
    folder = tmp_path / "index"
    shop.save(folder, model_directory)
    table = shop.title_table.select(["doc_id", "title"]).append_column("sales", column)
    feather.write_feather(table, folder / "titles.arrow", compression="uncompressed")
    (folder / CHECKSUMS).unlink()
    write_checksums(folder, files_in(folder))
    with pytest.raises(UserError, match=message):
        open_index(folder)


# --------------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    rows = [
        {"doc_id": entry.doc_id, "title": entry.title, "sales": float(sales) if sales else None,
         "price": price or "n/a", "brand": brand}
        for entry, sales, price, brand in zip(CORPUS, SALES, PRICES, BRANDS, strict=True)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_columns_are_read_with_the_titles(corpus_file):
    titles, columns = read_catalog(corpus_file, ["price", "sales"])
    assert titles == CORPUS
    assert columns["price"] == PRICES
    assert [float(cell or "nan") for cell in columns["sales"]] == approx(
        [float(cell or "nan") for cell in SALES], nan_ok=True
    )
    with pytest.raises(UserError, match=r"missing: color"):
        read_catalog(corpus_file, ["color"])
    with pytest.raises(UserError, match="'price' is named twice"):
        read_catalog(corpus_file, ["price", "price"])


def test_index_stores_columns_and_search_filters_and_boosts_by_them(
    corpus_file, model_directory, tmp_path, capsys, shop
):
    flags = ["--model", str(model_directory), "--corpus", str(corpus_file)]
    out = ["--out", str(tmp_path / "index")]
    assert main(["index", *flags, "--store", "sales, price,brand", *out]) == 0
    assert (
        "stored: sales (numbers, 1 missing), price (numbers, 1 missing), "
        "brand (texts, such as 'Acme')"
    ) in capsys.readouterr().err
    options = ["--filter", "price<=50", "--boost", "sales=0.3", "--format", "json", "red shoe"]
    expected = shop.search("red shoe", boosts={"sales": 0.3}, filters={"price": {"lte": 50}})
    for source in (["--index", str(tmp_path / "index")], flags):
        assert main(["search", *source, *options]) == 0
        hits = json.loads(capsys.readouterr().out)["rankings"]["semantic"]
        assert [hit["doc_id"] for hit in hits] == ids(expected.rankings["semantic"])
        assert "boost_sales" in hits[0]["parts"]


def test_filters_and_boosts_of_the_terminal():
    assert parse_filters(["price<=50", "price>=10", "brand=A=B", "brand=LG"]) == {
        "price": {"lte": 50.0, "gte": 10.0}, "brand": ["A=B", "LG"],
    }  # fmt: skip
    for wrong, message in [
        ("price", "expected a comparison"),
        ("<=50", "expected a comparison"),
        ("price<=cheap", "'price' is 'cheap'; expected a number"),
        ("price<=nan", "expected a number"),
        ("price<=1_0", "'price' is '1_0'; expected a number"),
    ]:
        with pytest.raises(UserError, match=message):
            parse_filters([wrong])
    with pytest.raises(UserError, match="both values and limits"):
        parse_filters(["price<=50", "price=3"])
    with pytest.raises(UserError, match="two limits of this kind"):
        parse_filters(["price<=50", "price<=60"])
    for wrong in ("sales", "sales=", "=1", "sales=inf", "sales=x", "sales=1_0"):
        with pytest.raises(UserError, match=r"expected COLUMN=WEIGHT, such as sales=0\.02"):
            parse_boosts([wrong])
    with pytest.raises(UserError, match="sales has a boost already"):
        parse_boosts(["sales=1", "sales=2"])


# --------------------------------------------------------------------------- search API


def test_the_search_api_filters_boosts_and_explains(shop):
    request = parse_json(
        b'{"query": "red shoe", "filters": {"price": {"lte": 50}, "brand": ["acme", "bolt"]}, '
        b'"boosts": {"sales": 0.5}, "explain": true}'
    )
    answer = search_by_api(shop, 1, request)
    for result in answer.results:
        assert sum(result.parts.values()) == approx(result.score, abs=1e-5)
        assert result.explanation["parts"]["boost_sales"] == approx(result.parts["boost_sales"])
        assert result.explanation["score"] == approx(result.score, abs=1e-5)
        assert any("adds 0.5 × ln(1 + " in line for line in result.explanation["sentences"])
    by_get = parse_parameters(
        [("query", "red shoe"), ("filters", '{"price": {"lte": 50}}'), ("boosts", '{"sales": 0.5}')]
    )
    assert by_get.boosts == {"sales": 0.5}


@pytest.mark.parametrize(
    "body",
    [
        {"boosts": {"sales": "much"}},
        {"boosts": {"sales": 1e309}},
        {"filters": {"price": {"below": 3}}},
        {"filters": {"price": {"lte": "cheap"}}},
        {"boosts": {"color": 1}},
        {"boosts": {"sales": 1}, "ranking": "bm25"},
    ],
)
def test_wrong_requests_are_refused(shop, body):
    with pytest.raises(Refusal):
        search_by_api(shop, 1, parse_json(json.dumps({"query": "red", **body}).encode()))
