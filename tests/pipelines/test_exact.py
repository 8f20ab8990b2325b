"""What preprocess writes is what the rules say, by a plain Python program that knows no columns."""

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

QUERIES = ["red hat", "Red Hat!", "tie", "Łódź", "box of ties", "hat", "!!", "red", "Tie"]
TITLES = ["Red Hat", "red-hat", "A Tie", "Box", "Ties, 3", "Łódź", "?", "Hat Box", "The Tie Box"]
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
    }
)


def read(directory, rows, corpus, given):
    """The options with which files of rows and of a corpus are read."""
    log, titles = directory / "log.tsv", directory / "corpus.tsv"
    lines = ["query\ttitle\tclicks\tsession_id\timpressions"]
    log.write_text("\n".join([*lines, *("\t".join(map(str, row)) for row in rows)]) + "\n")
    titles.write_text("\n".join(["title", *corpus]) + "\n")
    return PreprocessOptions((str(log),), "out", corpus=(str(titles),), **given)


class Evidence:
    """What the rows of a log say.

    Attributes:
        clicks: of each pair with a row that counts.
        rows: of each pair, without repeats.
        machines: pairs that machines clicked.
        texts: of queries and titles, by side and normal form, with their clicks.
        sessions: how many there are.
        dropped: rows that do not count, by reason.
    """

    def __init__(self, rows, settings):
        self.clicks, self.rows, self.dropped = Counter(), Counter(), Counter()
        self.texts, self.machines = defaultdict(Counter), set()
        sessions = defaultdict(list)
        for query, title, number, session, impressions in rows:
            if not number and (settings["negatives_from"] == "log" or not impressions):
                self.dropped["no click"] += 1
            elif not (FOLDED.key(query) and FOLDED.key(title)):
                self.dropped["no words"] += 1
            elif session:
                sessions[session].append((query, title, number))
            else:
                self.count(query, title, number)
        most_queries, most_clicks = (
            settings[f"max_{name}_per_session"] or 10**9 for name in ("queries", "clicks")
        )
        self.sessions = len(sessions)
        for visits in sessions.values():
            pairs = defaultdict(list)
            for query, title, number in visits:
                pairs[FOLDED.key(query), FOLDED.key(title)].append((-number, query, title))
            many = len({query for query, _ in pairs}) > most_queries
            if many or sum(number for *_, number in visits) > most_clicks:
                self.dropped[f"session with many {'queries' if many else 'clicks'}"] += len(visits)
                self.machines |= {pair for pair, found in pairs.items() if min(found)[0]}
                continue
            for found in pairs.values():
                # Of a pair's rows that with most clicks counts; of equals the smallest texts.
                number, query, title = min(found)
                repeats = max(sum(number < 0 for number, *_ in found) - 1, 0)
                self.dropped["repeated in session"] += repeats
                self.count(query, title, -number, len(found) - repeats)

    def count(self, query, title, number, rows=1):
        pair = FOLDED.key(query), FOLDED.key(title)
        self.clicks[pair] += number
        self.rows[pair] += rows
        self.texts["queries", pair[0]][query] += number
        self.texts["titles", pair[1]][title] += number

    def best(self, side, key):
        """The text with most clicks, the smallest of equals."""
        texts = self.texts[side, key]
        return min(texts, key=lambda text: (-texts[text], text))


@settings(max_examples=60, deadline=None)
@given(LOG, CORPUS, OPTIONS, st.randoms(use_true_random=False))
def test_every_table_and_record_is_what_the_rules_say(rows, corpus, given, random):
    log = Evidence(rows, given)
    kept = {pair: n for pair, n in log.clicks.items() if n >= given["min_clicks"]}
    queries = {query for query, _ in kept}
    shown = {
        pair
        for pair, n in log.clicks.items()
        if not n and pair[0] in queries and pair not in log.machines
    }
    clicked = {pair for pair, n in log.clicks.items() if n} | log.machines
    offered = {FOLDED.key(title) for title in corpus} - {""}
    with tempfile.TemporaryDirectory() as directory:
        options = read(Path(directory), rows, corpus, given)
        data, counts = run(options, Path(directory) / "out", bits=1, order=random)
        found = {kind: data.table(kind) for kind in ("titles", "queries")}
        learned, held_out = (
            [(one["query"][0], one["titles"], one["clicks"][0]) for one in data.examples(split)]
            for split in ("train", "validation")
        )
        words = data.words
    titles = [FOLDED.key(one["text"]) for one in found["titles"]]
    names = [FOLDED.key(one["text"]) for one in found["queries"]]
    assert sorted(names) == sorted(queries)
    listed = {title for _, title in [*kept, *shown]}
    assert sorted(titles) == sorted(listed | offered)
    for name, one in zip(names, found["queries"], strict=True):
        assert one["text"] == log.best("queries", name)
        of_query = {title for query, title in clicked if query == name}
        assert [titles[number] for number in one["clicked"]] == [
            title for title in titles if title in of_query
        ]
    in_train = {names[query] for query, *_ in learned}
    train = {pair: n for pair, n in kept.items() if pair[0] in in_train}
    for title, one in zip(titles, found["titles"], strict=True):
        numbers = [n for (_, other), n in train.items() if other == title]
        assert (one["clicks"], one["queries"]) == (sum(numbers), len(numbers))
        of_corpus = (text for text in corpus if FOLDED.key(text) == title)
        assert one["text"] == (log.best("titles", title) if title in listed else min(of_corpus))
    assert not in_train & {names[query] for query, *_ in held_out}
    both = {
        (names[query], titles[own]): (others, n) for query, (own, *others), n in learned + held_out
    }
    assert len(both) == len(learned + held_out)
    assert {pair: n for pair, (_, n) in both.items()} == kept
    for (query, title), (others, _) in both.items():
        negatives = [titles[one] for one in others if titles[one] != title]
        assert len(set(negatives)) == len(negatives)
        # As many as there are: first those shown for the query, then others that its part clicked.
        own_shown = {one for q, one in shown if q == query}
        may_be = set(own_shown)
        if given["negatives_from"] != "impressions":
            part = train if query in in_train else kept
            may_be |= {t for _, t in part} - {t for q, t in clicked if q == query}
        assert len(negatives) == min(given["negatives"], len(may_be))
        assert {*negatives[: len(own_shown)]} <= own_shown
        assert {*negatives} <= may_be
    # A title of the corpus that the training part lacks is learned from as if it came once.
    learned_from = [text for pair in train for text in pair]
    learned_from += offered - {title for _, title in train}
    ngrams, plain = Counter(), Vocabulary([], options.rules)
    for word in (word for text in learned_from for word in plain.words(text)):
        ngrams.update(f"#{word}#"[at : at + 3] for at in range(len(word)))
    vocabulary = Vocabulary.from_counts(
        ngrams, given["vocabulary_size"], options.rules, given["min_ngram_count"]
    )
    numbered = [*words]
    texts = [*zip(names, found["queries"], strict=True), *zip(titles, found["titles"], strict=True)]
    assert set(words) == {word for text, _ in texts for word in plain.words(text)}
    for text, one in texts:
        assert [numbered[number] for number in one["words"]] == plain.words(text)
    assert words == {word: vocabulary.ngram_ids(word) for word in words}
    for pair, number in log.rows.items():
        if pair not in kept.keys() | shown:
            log.dropped["few clicks" if log.clicks[pair] else "no click"] += number
    expected = Counter({f"dropped: {name}": n for name, n in log.dropped.items()})
    expected.update(
        {
            "rows: read": len(rows),
            "clicks: read": sum(row[2] for row in rows),
            "sessions: in all": log.sessions,
            "titles: in all": len(titles),
            "titles: clicked in the training part": len({title for _, title in train}),
            "titles: of the corpus": len(offered),
        }
    )
    for split, records in (("train", learned), ("validation", held_out)):
        expected[f"{split}: queries"] = len({query for query, *_ in records})
        expected[f"{split}: pairs"] = len(records)
        expected[f"{split}: clicks"] = sum(n for *_, n in records)
        alone = sum({*numbers} == {numbers[0]} for _, numbers, _ in records)
        expected[f"{split}: pairs without a negative"] = alone
    assert counts == +expected


@settings(max_examples=15, deadline=None)
@given(
    LOG, CORPUS, OPTIONS, st.randoms(use_true_random=False), st.integers(1, 3),
    st.integers(30, 300),
)  # fmt: skip
def test_the_order_of_rows_the_cut_and_the_number_of_files_change_nothing(
    rows, corpus, given, random, bits, size
):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        here = Path(directory)
        whole, counts = run(read(here, rows, corpus, given), here / "one")
        turned = [random.sample(some, len(some)) for some in (rows, corpus)]
        options = read(here, *turned, given)
        patch.setattr(sources, "MIN_PIECE_BYTES", size)
        patch.setattr(sources, "PIECES", 1000)
        again, recounted = run(options, here / "two", order=random)
        assert again.bytes() == whole.bytes()
        several, _ = run(options, here / "three", bits, random)
        assert [*several.words.items()] == [*whole.words.items()]
        for kind in ("titles", "queries"):
            assert several.table(kind) == whole.table(kind)
        for kind in ("train", "validation"):  # each is in the file of its query
            one, other = (sorted(map(repr, data.examples(kind))) for data in (several, whole))
            assert one == other
    assert recounted == counts
