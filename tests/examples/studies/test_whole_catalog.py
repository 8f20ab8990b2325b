"""The split of Home Depot's whole catalog, on invented judgments."""

from examples.studies.whole_catalog import has_unknown_word, is_test, main

QUERIES = [f"query {n}" for n in range(40)]
LEARNED = next(query for query in QUERIES if not is_test(query))
TESTED, BAD = [query for query in QUERIES if is_test(query)][:2]


def test_no_test_query_is_learned_and_every_title_is_ranked(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    clicks = f'query\ttitle\tclicks\n{LEARNED}\t3" lamp\t1\n'
    more = f"{TESTED}\tred lamp\t1\n{BAD}\tblue lamp\t1\n"
    (data / "clicks.tsv").write_text(clicks + more, "utf-8")
    head = "query_id\tquery\tdoc_id\ttitle\tgrade\n"
    judged = f"q2\t{TESTED}\td2\tred lamp\t2.5\nq2\t{TESTED}\td4\trug\t0\n"
    more = f'q3\t{BAD}\td3\tblue lamp\t0\nq1\t{LEARNED}\td1\t3" lamp\t2.5\n'
    (data / "judgments.tsv").write_text(head + judged + more, "utf-8")
    main(["--data", str(data), "--out", str(out)])
    assert {path.name: path.read_text("utf-8") for path in out.iterdir()} == {
        "clicks.tsv": clicks,
        "clicks_1000.tsv": clicks,
        "clicks_5000.tsv": clicks,
        "corpus.tsv": 'doc_id\ttitle\nd1\t3" lamp\nd2\tred lamp\nd3\tblue lamp\nd4\trug\n',
        "judgments.tsv": head + judged,
        "unknown_words.tsv": head + judged,  # no title has the word "query"
    }


def test_a_query_has_an_unknown_word_if_no_title_has_a_word_of_four_letters():
    known = {"power", "drill"}
    assert has_unknown_word("powr drill", known)
    assert not has_unknown_word("Power drill 3in", known)
    assert not has_unknown_word("red drill", known)  # too short
