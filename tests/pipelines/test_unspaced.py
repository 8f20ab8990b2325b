"""Preprocess of a log in scripts without spaces."""

from __future__ import annotations

from dssm_tf.data.preprocessed import Preprocessed

LOG = (
    "query\ttitle\tclicks\n"
    "iPhoneケース\t東京都の地図\t2\n"
    "iphone ケース\t東京都の地図\t3\n"
    "地図帳\t世界の地図帳\t1\n"
    "ราคา\tราคาทอง\t1\n"
)
NO_VALIDATION = ("--validation-fraction", "0")


def test_words_are_pairs_of_characters(run):
    data = run(*NO_VALIDATION, log=LOG)
    # The two spellings of the first query have the same words.
    assert {record.query: record.clicks for record in data.records()} == {
        "iphone ケース": 5, "地図帳": 1, "ราคา": 1
    }  # fmt: skip
    words = {
        "iphone",
        "ケー",
        "ース",
        "東京",
        "京都",
        "都の",
        "の地",
        "地図",
        "図帳",
        "世界",
        "界の",
    }
    thai = {"รา", "าค", "คา", "าท", "ทอ", "อง"}
    assert {*data.words} == words | thai
    assert {"#東京", "東京#", "東京", "~#京東"} <= {*data.vocabulary.ngrams}
    preprocessed = Preprocessed(data.path)
    row = preprocessed.find("titles", ["東京都 の地図"]).tolist()[0]
    assert row == -1  # with the space, 都の is not one of its words
    row = preprocessed.find("titles", ["東京都の地図!"]).tolist()[0]
    words_of_title = [
        preprocessed.distinct_words[0][i] for i in preprocessed.words("titles")[row].as_py()
    ]
    assert words_of_title == ["東京", "京都", "都の", "の地", "地図"]
    limited = run(*NO_VALIDATION, "--max-words", "2", log=LOG)
    assert {*limited.words} == {
        "iphone",
        "ケー",
        "東京",
        "京都",
        "地図",
        "図帳",
        "世界",
        "界の",
        "รา",
        "าค",
    }


def test_a_blocked_word_of_several_pairs_drops_queries_that_contain_it(run, write):
    blocked = write("blocked.txt", "地図帳\nケー ース\nราคาท\n=ราคา\n")
    data = run(
        *NO_VALIDATION,
        "--block-list",
        str(blocked),
        log=LOG + "古い地図帳\tケース\t1\n地図と図帳\tケース\t1\n",
    )
    # ケー ース is two words, so it would drop only a query of these two words. The query ราคา lacks
    # a pair of ราคาท, but equals =ราคา.
    assert {record.query for record in data.records()} == {"iphone ケース", "地図と図帳"}
