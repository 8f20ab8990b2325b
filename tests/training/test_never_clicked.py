"""A title that was clicked for a query is never its negative, for all text rules and sources."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from random import Random

import numpy as np
import pytest

from dssm_tf.config import parse_config
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.tables.writer import write_table
from pipelines import preprocess
from tests.clicks import all_candidates, full_labels, texts_of
from tests.training.configuration import batches_of, config

RULES = {
    "folded": "",
    "own fields": "--keep-accents --title-fields title,brand --field-rows own",
}
SOURCES = ("recorded", "fresh", "in-batch", "mined from any pair", "judged")
WORDS = ("pâté", "pate", "PÂTE", "Crème", "creme", "brûlée", "brulee", "ŏ", "o")


def texts(random: Random, count: int) -> list[str]:
    """Texts, many of which differ only in accents or case."""
    return [" ".join(random.choices(WORDS, k=random.randint(1, 3))) for _ in range(count)]


@pytest.fixture(scope="module", params=RULES)
def data(request, tmp_path_factory):
    """A preprocessed log with the text rules of the parameter."""
    folder, random = tmp_path_factory.mktemp("rule"), Random(7)
    queries, titles = texts(random, 60), texts(random, 90)
    rows = [
        (random.choice(queries), random.choice(titles), random.choice(("Æsir", "aesir", "")),
         str(random.randint(1, 9)))
        for _ in range(400)
    ]  # fmt: skip
    write_table(folder / "log.tsv", ("query", "title", "brand", "clicks"), rows)
    files = ["--input", str(folder / "log.tsv"), "--output", str(folder / "data")]
    assert not preprocess.run([*files, *RULES[request.param].split()])
    return Preprocessed(folder / "data")


def configuration(source: str, data: Preprocessed, folder):
    """A configuration whose negatives are all of one source."""
    queries, fields = dict.fromkeys(query for query, _, _ in data.log()), data.spec.title_fields
    all_pairs = list(product(queries, [title.text for title in data.titles]))
    write_table(folder / "mined.tsv", ("query", "title"), all_pairs)
    rows = [
        (query, *[*title.split("␟"), ""][: len(fields)], "0" if index % 5 else "3")
        for index, (query, title) in enumerate(all_pairs)
    ]
    write_table(folder / "judged.tsv", ("query", *fields, "grade"), rows)
    negatives = {
        "recorded": {"recorded": 4},
        "fresh": {"fresh": 3},
        "mined from any pair": {"mined": 3, "mined_from": str(folder / "mined.tsv")},
    }
    settings = {"negatives": {"in_batch": source == "in-batch"} | negatives.get(source, {})}
    if source == "judged":
        settings["judgments"] = {"file": str(folder / "judged.tsv"), "validation": 0.0}
        settings["training__clicks"] = False
    return parse_config(config(**settings, training__batch_size=32))


@pytest.mark.long
@pytest.mark.parametrize("source", SOURCES)
def test_no_title_clicked_for_a_query_is_ever_its_negative(data, source, tmp_path):
    settings, vocabulary = configuration(source, data, tmp_path), data.vocabulary
    trigram_ids = {
        text: tuple(vocabulary.ngram_ids(word) for word in vocabulary.words(text))
        for query, title, _ in data.log()
        for text in (query, title)
    }
    clicked = defaultdict(set)
    for query, title, _ in data.log():
        clicked[trigram_ids[query]].add(trigram_ids[title])
    batches = batches_of(settings, data)
    negatives = 0
    for inputs, labels, weights in batches.epochs(1, 0, 2):
        queries, titles = texts_of(inputs, len(weights))
        mask, _, targets = full_labels(labels)
        candidates = all_candidates(inputs)
        for row in np.flatnonzero(weights.numpy()):
            columns = candidates[row]
            for column in np.flatnonzero(mask[row] & (targets[row] == 0)):
                assert titles[columns[column]] not in clicked[queries[row]]
                negatives += 1
    assert negatives > 100
