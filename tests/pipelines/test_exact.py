"""The output of preprocess equals that of a plain Python program that works row by row."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import sources
from pipelines.options import PreprocessOptions
from tests.pipelines.loop import run
from tests.reference.letter_trigrams import pairs, sorted_trigrams, trigrams

QUERIES = ["red hat", "Red Hat!", "tie", "Łódź", "box of ties", "hat", "!!", "red", "Tie"]
TITLES = ["Red Hat", "red-hat", "A Tie", "Box", "Ties, 3", "Łódź", "?", "Hat Box", "The Tie Box"]
LETTER_NGRAMS = {"pairs": pairs, "trigrams": trigrams, "sorted_trigrams": sorted_trigrams}
ROW = st.tuples(
    st.sampled_from(QUERIES), st.sampled_from(TITLES), st.integers(0, 4),
    st.sampled_from(["", "", "", "s1", "s2", "robot"]), st.integers(0, 2),
)  # fmt: skip
LOG = st.lists(ROW, min_size=1, max_size=60)
CORPUS = st.lists(st.sampled_from([*TITLES, "RED HAT", "Zeppelin", "zeppelin!"]), max_size=4)
OPTIONS = st.fixed_dictionaries(
    {
        "min_clicks": st.integers(1, 3),
        "negatives": st.integers(0, 4),
        "negative_alpha": st.sampled_from([0.0, 0.75]),
        "negatives_from": st.sampled_from(["log", "impressions", "both"]),
        "validation_fraction": st.sampled_from([0.0, 0.4]),
        "max_queries_per_session": st.sampled_from([0, 2]),
        "max_clicks_per_session": st.sampled_from([0, 5]),
        "seed": st.integers(0, 3),
        "max_words": st.sampled_from([2, 64]),
        "vocabulary_size": st.sampled_from([9, 1000]),
        "min_ngram_count": st.integers(1, 2),
        "letter_ngrams": st.sampled_from(["", "trigrams", "sorted_trigrams,pairs"]),
    }
)


def write_input(directory, rows, corpus, flags):
    """Writes a log and a corpus; returns the options of preprocess."""
    log, titles = directory / "log.tsv", directory / "corpus.tsv"
    lines = ["query\ttitle\tclicks\tsession_id\timpressions"]
    log.write_text("\n".join([*lines, *("\t".join(map(str, row)) for row in rows)]) + "\n")
    titles.write_text("\n".join(["title", *corpus]) + "\n")
    return PreprocessOptions(input=(str(log),), output="out", corpus=(str(titles),), **flags)


class ExpectedCounts:
    """Expected counts of a log.

    Attributes:
        clicks: clicks of each pair, without dropped rows.
        rows: rows of each pair, without repeats.
        robot_pairs: pairs in dropped sessions.
        texts: clicks of the texts of queries and titles, by side and normal form.
        sessions: number of sessions.
        dropped: number of dropped rows, by reason.
    """

    def __init__(self, rows, settings):
        self.clicks, self.rows, self.dropped = Counter(), Counter(), Counter()
        self.texts, self.robot_pairs = defaultdict(Counter), set()
        sessions = defaultdict(list)
        for query, title, clicks, session, impressions in rows:
            if not clicks and (settings["negatives_from"] == "log" or not impressions):
                self.dropped["no click"] += 1
            elif not (FOLDED.key(query) and FOLDED.key(title)):
                self.dropped["no words"] += 1
            elif session:
                sessions[session].append((query, title, clicks))
            else:
                self.count(query, title, clicks)
        most_queries, most_clicks = (
            settings[f"max_{name}_per_session"] or 10**9 for name in ("queries", "clicks")
        )
        self.sessions = len(sessions)
        for session_rows in sessions.values():
            pairs = defaultdict(list)
            for query, title, clicks in session_rows:
                pairs[FOLDED.key(query), FOLDED.key(title)].append((-clicks, query, title))
            has_many_queries = len({query for query, _ in pairs}) > most_queries
            if has_many_queries or sum(clicks for *_, clicks in session_rows) > most_clicks:
                self.dropped[
                    f"session with many {'queries' if has_many_queries else 'clicks'}"
                ] += len(session_rows)
                self.robot_pairs |= {pair for pair, rows in pairs.items() if min(rows)[0]}
                continue
            for rows_of_pair in pairs.values():
                # The row with most clicks counts; on ties, the smallest texts.
                negated_clicks, query, title = min(rows_of_pair)
                repeats = max(sum(negated < 0 for negated, *_ in rows_of_pair) - 1, 0)
                self.dropped["repeated in session"] += repeats
                self.count(query, title, -negated_clicks, len(rows_of_pair) - repeats)

    def count(self, query, title, clicks, rows=1):
        pair = FOLDED.key(query), FOLDED.key(title)
        self.clicks[pair] += clicks
        self.rows[pair] += rows
        self.texts["queries", pair[0]][query] += clicks
        self.texts["titles", pair[1]][title] += clicks

    def best(self, side, key):
        """The text with most clicks; on ties, the smallest text."""
        texts = self.texts[side, key]
        return min(texts, key=lambda text: (-texts[text], text))


@settings(max_examples=25, deadline=None)
@given(LOG, CORPUS, OPTIONS, st.randoms(use_true_random=False))
def test_every_table_and_record_equals_the_expected_one(rows, corpus, flags, random):
    log = ExpectedCounts(rows, flags)
    positives = {pair: n for pair, n in log.clicks.items() if n >= flags["min_clicks"]}
    queries = {query for query, _ in positives}
    impressions = {
        pair
        for pair, n in log.clicks.items()
        if not n and pair[0] in queries and pair not in log.robot_pairs
    }
    clicked = {pair for pair, n in log.clicks.items() if n} | log.robot_pairs
    in_corpus = {FOLDED.key(title) for title in corpus} - {""}
    with tempfile.TemporaryDirectory() as directory:
        options = write_input(Path(directory), rows, corpus, flags)
        data, counts = run(options, Path(directory) / "out", bits=1, order=random)
        tables = {kind: data.table(kind) for kind in ("titles", "queries")}
        train_records, validation_records = (
            [(row["query"][0], row["titles"], row["clicks"][0]) for row in data.examples(split)]
            for split in ("train", "validation")
        )
        words = data.words
    titles = [FOLDED.key(row["text"]) for row in tables["titles"]]
    names = [FOLDED.key(row["text"]) for row in tables["queries"]]
    assert sorted(names) == sorted(queries)
    listed = {title for _, title in [*positives, *impressions]}
    assert sorted(titles) == sorted(listed | in_corpus)
    for name, row in zip(names, tables["queries"], strict=True):
        assert row["text"] == log.best("queries", name)
        of_query = {title for query, title in clicked if query == name}
        assert [titles[number] for number in row["clicked"]] == [
            title for title in titles if title in of_query
        ]
    in_train = {names[query] for query, *_ in train_records}
    train = {pair: n for pair, n in positives.items() if pair[0] in in_train}
    for title, row in zip(titles, tables["titles"], strict=True):
        numbers = [n for (_, other), n in train.items() if other == title]
        assert (row["clicks"], row["queries"]) == (sum(numbers), len(numbers))
        of_corpus = (text for text in corpus if FOLDED.key(text) == title)
        assert row["text"] == (log.best("titles", title) if title in listed else min(of_corpus))
    assert not in_train & {names[query] for query, *_ in validation_records}
    all_records = train_records + validation_records
    by_pair = {
        (names[query], titles[positive]): (others, n)
        for query, (positive, *others), n in all_records
    }
    assert len(by_pair) == len(all_records)
    assert {pair: n for pair, (_, n) in by_pair.items()} == positives
    for (query, title), (others, _) in by_pair.items():
        negatives = [titles[number] for number in others if titles[number] != title]
        assert len(set(negatives)) == len(negatives)
        # First the displayed titles of the query, then clicked titles of its split; fewer than
        # `negatives` only if there are no more.
        of_query = {title for q, title in impressions if q == query}
        candidates = set(of_query)
        if flags["negatives_from"] != "impressions":
            pairs = train if query in in_train else positives
            candidates |= {t for _, t in pairs} - {t for q, t in clicked if q == query}
        assert len(negatives) == min(flags["negatives"], len(candidates))
        assert {*negatives[: len(of_query)]} <= of_query
        assert {*negatives} <= candidates
    # A title of the corpus without a training click counts once in the vocabulary.
    training_texts = [text for pair in train for text in pair]
    training_texts += in_corpus - {title for _, title in train}
    ngrams, plain = Counter(), Vocabulary([], options.rules)
    for word in (word for text in training_texts for word in plain.words(text)):
        for kind in flags["letter_ngrams"].split(",") if flags["letter_ngrams"] else LETTER_NGRAMS:
            ngrams.update(LETTER_NGRAMS[kind](word))
    vocabulary = Vocabulary.from_counts(
        ngrams, flags["vocabulary_size"], options.rules, flags["min_ngram_count"]
    )
    numbered = [*words]
    texts = [
        *zip(names, tables["queries"], strict=True),
        *zip(titles, tables["titles"], strict=True),
    ]
    assert set(words) == {word for text, _ in texts for word in plain.words(text)}
    for text, row in texts:
        assert [numbered[number] for number in row["words"]] == plain.words(text)
    assert words == {word: vocabulary.ngram_ids(word) for word in words}
    for pair, number in log.rows.items():
        if pair not in positives.keys() | impressions:
            log.dropped["few clicks" if log.clicks[pair] else "no click"] += number
    expected = Counter({f"dropped: {name}": n for name, n in log.dropped.items()})
    expected.update(
        {
            "rows: read": len(rows),
            "clicks: read": sum(row[2] for row in rows),
            "sessions: in all": log.sessions,
            "titles: in all": len(titles),
            "titles: clicked in the training part": len({title for _, title in train}),
            "titles: of the corpus": len(in_corpus),
        }
    )
    for split, records in (("train", train_records), ("validation", validation_records)):
        expected[f"{split}: queries"] = len({query for query, *_ in records})
        expected[f"{split}: pairs"] = len(records)
        expected[f"{split}: clicks"] = sum(n for *_, n in records)
        without_negatives = sum({*numbers} == {numbers[0]} for _, numbers, _ in records)
        expected[f"{split}: pairs without a negative"] = without_negatives
    assert counts == +expected


@settings(max_examples=8, deadline=None)
@given(
    LOG, CORPUS, OPTIONS, st.randoms(use_true_random=False), st.integers(1, 3),
    st.integers(30, 300),
)  # fmt: skip
def test_the_output_does_not_depend_on_the_order_of_rows_pieces_or_the_number_of_files(
    rows, corpus, flags, random, bits, size
):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        here = Path(directory)
        expected, counts = run(write_input(here, rows, corpus, flags), here / "expected")
        shuffled = [random.sample(lines, len(lines)) for lines in (rows, corpus)]
        options = write_input(here, *shuffled, flags)
        patch.setattr(sources, "MIN_PIECE_BYTES", size)
        patch.setattr(sources, "PIECES", 1000)
        in_pieces, recounted = run(options, here / "pieces", order=random)
        assert in_pieces.bytes() == expected.bytes()
        several, _ = run(options, here / "several", bits, random)
        assert [*several.words.items()] == [*expected.words.items()]
        for kind in ("titles", "queries"):
            assert several.table(kind) == expected.table(kind)
        for kind in ("train", "validation"):  # a record is in the file of its query
            examples = [sorted(map(repr, data.examples(kind))) for data in (several, expected)]
            assert examples[0] == examples[1]
    assert recounted == counts
