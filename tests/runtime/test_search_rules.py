"""Files of rules by hand."""

from __future__ import annotations

import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.maxsim import InvertedIndex
from dssm_tf.runtime.search_rules import read_rules
from dssm_tf.runtime.similar_words import SimilarWords
from dssm_tf.runtime.word_matches import word_matches
from dssm_tf.text.rules import TextRules
from tests.runtime.maxsim_models import example_model, random_model


@pytest.fixture
def read(tmp_path):
    def read(text, model=None):
        path = tmp_path / "rules.tsv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_rules(path, (model or example_model()).vocabulary)

    return read


def test_rules_are_read_in_order_with_their_lines(read):
    rules = read("\ufeff# comment\r\n\r\nsimilar\tGF\t Girlfriend!\t.9\t\r\npin\tred Shoe\tx 1\r\n")
    assert rules.words == ((("gf", "girlfriend"), 0.9, 3),)
    assert rules.titles == (("red shoe", "x 1", True, 4),)
    assert len(read("")) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("synonym\ta\tb", "1: 'synonym' is no kind of rule; expected similar, never, pin, block"),
        ("# x\nnever a b", "2: 'never a b' is no kind of rule"),
        ("never\ta", r"1: the rule has the cells \['never', 'a'\]; expected never, WORD, WORD"),
        ("never\ta\tb\t0.5", "1: the rule has the cells"),
        ("similar\ta\tb", "expected similar, WORD, WORD, SIMILARITY"),
        ("similar\ta\tb\t0", "1: the similarity is '0'; expected a number above 0 and up to 1"),
        ("similar\ta\tb\t0.0_9", "1: the similarity is '0.0_9'; expected a number above 0"),
        ("similar\ta\tb\tnan", "the similarity is 'nan'"),
        ("similar\ta\tb\t1.5", "the similarity is '1.5'"),
        ("never\thot dog\tb", "1: 'hot dog' has 2 words: 'hot' 'dog'; expected one word"),
        ("never\t?\tb", r"1: '\?' has 0 words; expected one word"),
        ("never\tCafé\tcafe", "1: 'Café' and 'cafe' are the same word, 'cafe'"),
        ("never\ta\tb\nsimilar\tB\ta\t0.5", "2: line 1 is about 'a' and 'b' already"),
        ("pin\tq\tx\nblock\tQ!\tx", "2: line 1 is about 'q' and 'x' already"),
        ("pin\t!\tx", "1: the query '!' has no word"),
        (b"# x\nnever\t\xff\tb", "2: the text is not UTF-8"),
    ],
)
def test_a_rule_that_is_not_valid_is_an_error_with_file_and_line(read, text, message):
    with pytest.raises(
        UserError, match=f"rules.tsv:{message}" if message[0].isdigit() else message
    ):
        read(text)


def test_a_file_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(UserError, match=r"none\.tsv cannot be read: No such file"):
        read_rules(tmp_path / "none.tsv", example_model().vocabulary)


def test_similarities_of_rules_replace_those_of_the_model_in_both_directions(read):
    """By docs/maxsim.md, "crimson" and "red" have similarity 0.75, "lid" and "red" 0."""
    model = example_model()
    with_rules = model.with_rules(read("never\tcrimson\tred\nsimilar\tlid\tred\t0.5\n"))
    for query, title, learned, ruled in [
        ("crimson", "red", 0.75, 0.0),
        ("red", "crimson", 0.75, 0.0),
        ("lid", "red", 0.0, 0.5),
        ("red", "lid", 0.0, 0.5),
    ]:
        for variant, similarity in [(model, learned), (with_rules, ruled)]:
            # Of one word each, both sides are their weight times the similarity.
            expected = similarity * (1 + 0.3)
            assert InvertedIndex.from_titles(variant, [[title]]).scores([query])[0] == approx(
                expected
            )
            matches = word_matches(variant, [query], [title])
            assert matches.score == approx(expected)
        (rule,) = matches.rules
        assert (rule.similarity, rule.model_similarity) == (ruled, approx(learned))


def test_a_word_without_letters_of_the_model_is_similar_by_a_rule(read):
    model = example_model().with_rules(read("similar\tqqq\tshoe\t0.9\n"))
    assert InvertedIndex.from_titles(model, [["shoe"], ["qqq"]]).scores(["qqq"]) == approx(
        [0.9 * 1.3, 0]
    )


def test_words_of_rules_are_similar_beyond_the_limit_and_unlisted_words_do_not_count(read):
    words = ["red", "crimson", "shoe", "box", "lid"]
    rules = read("similar\tred\tlid\t0.1\nnever\tred\tcrimson\nsimilar\tred\thouse\t1\n")
    similar = SimilarWords(example_model().with_rules(rules), words, 1)
    rows, similarities = similar.of_word("red")
    assert [words[row] for row in rows] == ["red", "lid"]
    assert similarities == approx([1, 0.1])
    ((rows, _),) = similar.of_each(["red"])
    assert [words[row] for row in rows] == ["red", "lid"]


def test_rules_hold_in_all_fields(read):
    model = random_model(["red hat␟sony", "blue␟sony"], TextRules(keep_accents=False, own_fields=2))
    ruled = model.with_rules(read("similar\tplaystation\tsony\t1\n", model))
    titles = [model.vocabulary.words("red hat␟sony")]
    matches = word_matches(ruled, ["playstation"], titles[0])
    assert matches.query[0].matched_word == "1␟sony"
    assert InvertedIndex.from_titles(ruled, titles).scores(["playstation"])[0] == approx(
        matches.score
    )
