"""What preprocess writes is what the rules say, by a plain Python program that knows no columns."""

from __future__ import annotations

import gzip
import io
import struct
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tensorflow.core.example.example_pb2 import Example

from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from pipelines import preprocess, sources
from pipelines.options import PreprocessOptions
from tests.pipelines.loop import run

QUERIES = ["red hat", "Red Hat!", "tie", "Łódź", "box of ties", "hat", "!!", "red", "Tie"]
TITLES = ["Red Hat", "red-hat", "A Tie", "Box", "Ties, 3", "Łódź", "?", "Hat Box", "The Tie Box"]
ROW = st.tuples(
    st.sampled_from(QUERIES), st.sampled_from(TITLES), st.integers(0, 4),
    st.sampled_from(["", "", "", "s1", "s2", "robot"]), st.integers(0, 2),
)  # fmt: skip
LOG = st.lists(ROW, min_size=1, max_size=60)
OPTIONS = st.fixed_dictionaries(
    {
        "min_clicks": st.integers(1, 3),
        "negatives": st.integers(0, 4),
        "negatives_from": st.sampled_from(["log", "impressions", "both"]),
        "validation_fraction": st.sampled_from([0.0, 0.4]),
        "max_queries_per_session": st.sampled_from([0, 2]),
        "max_clicks_per_session": st.sampled_from([0, 5]),
        "seed": st.integers(0, 3),
        "max_words": st.sampled_from([2, 64]),
        "vocabulary_size": st.sampled_from([9, 1000]),
    }
)


def write(path, rows):
    lines = ["query\ttitle\tclicks\tsession_id\timpressions"]
    path.write_text("\n".join([*lines, *("\t".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


def tables(files):
    """Tables as rows, records as plain values, whatever the number of files."""
    found = defaultdict(list)
    for name, data in sorted(files.items()):
        kind = name.split("-")[0]
        if name.endswith(".parquet"):
            found[kind] += parquet.read_table(io.BytesIO(data)).to_pylist()
            continue
        raw, at = gzip.decompress(data), 0
        while at < len(raw):
            (length,) = struct.unpack_from("<Q", raw, at)
            one = Example.FromString(raw[at + 12 : at + 12 + length]).features.feature
            at += 16 + length
            if kind == "words":
                word = one["word"].bytes_list.value[0].decode()
                found[kind].append((word, tuple(one["ngrams"].int64_list.value)))
            else:
                numbers = tuple(one["titles"].int64_list.value)
                query = one["query"].int64_list.value[0]
                found[kind].append((query, numbers, one["clicks"].float_list.value[0]))
    return found


def pairs_of(rows, settings):
    """Clicks of each pair with a row that counts; pairs that machines clicked."""
    shown = settings["negatives_from"] != "log"
    keys = FOLDED.key
    used = [one for one in rows if keys(one[0]) and keys(one[1]) and (one[2] or (shown and one[4]))]
    sessions = defaultdict(list)
    clicks, machines = Counter(), set()
    seen = set()
    for query, title, number, session, _ in used:
        pair = FOLDED.key(query), FOLDED.key(title)
        if session:
            sessions[session].append((pair, number))
        else:
            clicks[pair] += number
            seen.add(pair)
    most_queries, most_clicks = (
        settings[f"max_{name}_per_session"] or 10**9 for name in ("queries", "clicks")
    )
    for visits in sessions.values():
        best = Counter()
        for pair, number in visits:
            best[pair] = max(best[pair], number)
        if (
            len({query for query, _ in best}) > most_queries
            or sum(number for _, number in visits) > most_clicks
        ):
            machines |= {pair for pair in best if best[pair]}
            continue
        for pair, number in best.items():
            clicks[pair] += number
            seen.add(pair)
    return {pair: clicks[pair] for pair in seen}, machines


@settings(max_examples=60, deadline=None)
@given(LOG, OPTIONS, st.randoms(use_true_random=False))
def test_every_table_and_record_is_what_the_rules_say(rows, given, random):
    clicks, machines = pairs_of(rows, given)
    kept = {pair: n for pair, n in clicks.items() if n >= given["min_clicks"]}
    queries = {query for query, _ in kept}
    shown = {
        pair for pair, n in clicks.items() if not n and pair[0] in queries and pair not in machines
    }
    clicked = {pair for pair, n in clicks.items() if n} | machines
    with tempfile.TemporaryDirectory() as directory:
        log = write(Path(directory) / "log.tsv", rows)
        options = PreprocessOptions((log,), "out", **given)
        found = tables(run(options, Path(directory) / "out", bits=1, order=random))
    titles = [FOLDED.key(one["text"]) for one in found["titles"]]
    names = [FOLDED.key(one["text"]) for one in found["queries"]]
    assert sorted(names) == sorted(queries)
    assert sorted(titles) == sorted({title for _, title in [*kept, *shown]})
    for name, one in zip(names, found["queries"], strict=True):
        of_query = {title for query, title in clicked if query == name}
        assert [titles[number] for number in one["clicked"]] == [
            title for title in titles if title in of_query
        ]
    in_train = {names[query] for query, *_ in found["train"]}
    train = {pair: n for pair, n in kept.items() if pair[0] in in_train}
    for title, one in zip(titles, found["titles"], strict=True):
        numbers = [n for (_, other), n in train.items() if other == title]
        assert (one["clicks"], one["queries"]) == (sum(numbers), len(numbers))
    learned, held_out = (
        {(names[q], titles[t[0]]): (q, t[1:], n) for q, t, n in found[split]}
        for split in ("train", "validation")
    )
    assert len(learned) + len(held_out) == len(found["train"]) + len(found["validation"])
    assert not {query for query, _ in learned} & {query for query, _ in held_out}
    both = learned | held_out
    assert {pair: n for pair, (*_, n) in both.items()} == kept
    for (query, title), (_, others, _) in both.items():
        negatives = [titles[one] for one in others if titles[one] != title]
        assert len(set(negatives)) == len(negatives)
        assert not {(query, one) for one in negatives} & clicked
        own_shown = {one for q, one in shown if q == query}
        if given["negatives_from"] != "log":
            first = negatives[: min(given["negatives"], len(own_shown))]
            assert set(first) <= own_shown
            assert len(first) == min(given["negatives"], len(own_shown))
        if given["negatives_from"] == "impressions":
            assert set(negatives) <= own_shown
        else:  # as many as there are
            part = train if (query, title) in learned else kept
            left = {t for _, t in part} - {t for q, t in clicked if q == query}
            assert len(negatives) == min(given["negatives"], len(left | set(negatives)))
    counts = Counter()
    plain = Vocabulary([], options.rules)
    for query, title in train:
        counts.update(
            ngram
            for text in (query, title)
            for word in plain.words(text)
            for ngram in _ngrams(word)
        )
    vocabulary = Vocabulary.from_counts(counts, given["vocabulary_size"], options.rules)
    words = [word for word, _ in found["words"]]
    texts = [*zip(names, found["queries"], strict=True), *zip(titles, found["titles"], strict=True)]
    assert set(words) == {word for text, _ in texts for word in plain.words(text)}
    for text, one in texts:
        assert [words[number] for number in one["words"]] == plain.words(text)
    for word, ids in found["words"]:
        assert ids == vocabulary.ngram_ids(word)


def _ngrams(word):
    whole = f"#{word}#"
    return [whole[at : at + 3] for at in range(len(word))]


@settings(max_examples=15, deadline=None)
@given(LOG, OPTIONS, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(30, 300))
def test_the_order_of_rows_the_cut_and_the_number_of_files_change_nothing(
    rows, given, random, bits, size
):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        here = Path(directory)
        log = write(here / "log.tsv", rows)
        whole = run(PreprocessOptions((log,), "out", **given), here / "one")
        turned = random.sample(rows, len(rows))
        other = write(here / "other.tsv", turned)
        patch.setattr(sources, "MIN_PIECE_BYTES", size)
        patch.setattr(sources, "PIECES", 1000)
        options = PreprocessOptions((other,), "out", **given)
        assert run(options, here / "two", order=random) == whole
        several = tables(run(options, here / "three", bits, random))
    found = tables(whole)
    for kind in ("words", "titles", "queries"):
        assert several[kind] == found[kind]
    for kind in ("train", "validation"):  # each is in the file of its query
        assert sorted(several[kind]) == sorted(found[kind])


@pytest.mark.parametrize("flags", [[], ["--direct_running_mode=multi_processing"]])
def test_a_runner_writes_what_the_plain_loop_does(tmp_path, flags):
    random = Random(0)
    rows = [
        (random.choice(QUERIES), random.choice(TITLES), random.randrange(4), "", 1)
        for _ in range(50)
    ]
    log, out = write(tmp_path / "log.tsv", rows), tmp_path / "out"
    given = ["--input", log, "--output", str(out), "--shards", "2", *flags]
    assert preprocess.run(given) == 0
    expected = run(PreprocessOptions((log,), "out"), tmp_path / "loop", bits=1)
    assert {name: (out / name).read_bytes() for name in expected} == expected
