"""Training logs, pairs to analyze, and trained runs, for `examples.studies.observations`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import keras
import numpy as np
import polars as pl
from numpy.typing import NDArray

import dssm_tf.datasets
from dssm_tf.analysis.activations import readings
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.config import find_config, load_config
from dssm_tf.model.build import build_model
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.tables.click_log import SCHEMA, LogRow, log_frame, read_logs, write_log
from dssm_tf.tables.splits import BENCHMARK_SPLIT, is_held_out, split_by_query, split_by_time
from dssm_tf.text.rules import FOLDED
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.training.train import train
from pipelines.preprocess import run

T = TypeVar("T")

CLICKS = 6_000
PAIRS = 3_000
ANALYZED_PAIRS = 600
GRADED = 4_000
TOPICS = 20
_DIMENSIONS = 50
_TEST_FRACTION = 0.2  # of the clicks, or of the queries
_EPOCHS = 15


class Observed(NamedTuple):
    """A click log split into training and test.

    Attributes:
        name: name of the data set.
        train: rows of the training log.
        pairs: queries and titles of test clicks.
        graded: query, title and grade of test judgments; empty without judgments.
    """

    name: str
    train: list[LogRow]
    pairs: list[tuple[str, str]]
    graded: list[tuple[str, str, float]]


def best_buy(data: Path, full: bool) -> Observed:
    """The last 6,000 (all if `full`) of the earlier 80 % of the clicks; pairs of the later ones."""
    rows, _ = read_logs([data / "bestbuy" / "clicks.tsv"])
    split = split_by_time(rows, _TEST_FRACTION)
    train = split.train if full else split.train.tail(CLICKS)
    return Observed("bestbuy", _log_rows(train), _pairs(_log_rows(split.test)), [])


def web_questions(data: Path, full: bool) -> Observed:
    """The bundled training questions, and pairs of the other questions."""
    del data, full  # the data set is small and bundled
    table = Path(dssm_tf.datasets.__file__).parent / "webquestions" / "pairs.tsv"
    rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()[1:]]
    train = [LogRow(query, title) for _, split, query, title in rows if split == "trainmodel"]
    test = [LogRow(query, title) for _, split, query, title in rows if split != "trainmodel"]
    return Observed("webquestions", train, _pairs(test), [])


def home_depot(data: Path, full: bool) -> Observed:
    """3,000 pairs of four fifths of the queries (all if `full`); pairs and grades of the others."""
    rows, _ = read_logs([data / "homedepot" / "clicks.tsv"])
    split = split_by_query(rows, _TEST_FRACTION)
    # `read_judgments` rejects pairs that were judged twice.
    header, *lines = (data / "homedepot" / "judgments.tsv").read_text("utf-8").splitlines()
    columns = [header.split("\t").index(name) for name in ("query", "title", "grade")]
    judged = [[line.split("\t")[column] for column in columns] for line in lines]
    graded = [
        (query, title, float(grade))
        for query, title, grade in judged
        if is_held_out(query, _TEST_FRACTION, BENCHMARK_SPLIT)
    ]
    train = _log_rows(split.train)
    train = train if full else _sample(train, PAIRS)
    return Observed("homedepot", train, _pairs(_log_rows(split.test)), _sample(graded, GRADED))


SETS = {"bestbuy": best_buy, "webquestions": web_questions, "homedepot": home_depot}


def train_runs(
    observed: Observed, systems: Sequence[str], seeds: int, out: Path, full: bool = False
) -> dict[str, list[Path]]:
    """Trains the missing runs; returns the runs of each system, one per seed.

    Trains the shipped configurations, with at most 15 epochs and no refit unless `full`.
    """
    folder = out / observed.name
    log, data = folder / "clicks.tsv", folder / "data"
    if not data.exists():
        write_log(log, log_frame(observed.train))
        with contextlib.redirect_stdout(io.StringIO()):
            if run(["--input", str(log), "--output", str(data)]):
                raise UserError(f"{log} could not be preprocessed.")
    changes = [] if full else [f"training.epochs={_EPOCHS}", "training.refit=false"]
    runs: dict[str, list[Path]] = {system: [] for system in systems}
    with progress_of(f"{observed.name}: training", seeds * len(systems), True, "runs") as task:
        for seed in range(seeds):
            for system in systems:
                config = load_config(find_config(system), [*changes, f"training.seed={seed}"])
                runs[system].append(folder / f"{system}-{seed}")
                train(config, data, runs[system][-1], quiet=True)
                task.advance(state=f"{system}, seed {seed}")
    return runs


def variants(ranker: SemanticRanker, system: str, seed: int) -> Iterator[str]:
    """Sets the weights of one variant of a model after another, and yields its name.

    The first variant is the model itself. For an LSTM-RNN or RNN, the next is untrained. For an
    LSTM-RNN, further ones have one gate fixed at its mean over the words of the analyzed titles.
    """
    yield system
    model, tower = ranker.model, ranker.model.query_tower
    weights = model.get_weights()
    if system in ("lstm", "rnn"):
        keras.utils.set_random_seed(seed)
        model.set_weights(build_model(ranker.config, ranker.vocabulary.size).get_weights())
        yield f"{system} untrained"
    if system == "lstm":
        for gate, index in (("i", 2), ("f", 1)):
            model.set_weights(weights)
            texts = list(ranker.prior.log_priors)[:ANALYZED_PAIRS]
            text_readings = readings(tower, ranker.vocabulary, texts)
            values = [reading.activations[gate] for (reading,) in text_readings]
            fix_gate(tower, index, np.concatenate(values).mean(axis=0))
            yield f"{system} with {gate}(t) constant"
    model.set_weights(weights)


def fix_gate(tower: LSTMRNN, index: int, gate: NDArray[np.floating]) -> None:
    """Sets the weights of a gate so that it has the same values `(cells,)` at every word.

    Index 1 is the forget gate, index 2 the input gate.
    """
    cell, columns = tower.recurrence.cell, slice(index * tower.units, (index + 1) * tower.units)
    for weight, key, value in (
        (tower.hashing.kernel, (slice(None), columns), 0.0),
        (cell.recurrent_kernel, (slice(None), columns), 0.0),
        (cell.peephole_kernel, index, 0.0),
        (cell.bias, columns, np.log(gate / (1 - gate))),
    ):
        values = np.array(weight.numpy())
        values[key] = value
        weight.assign(values)


def topics_of(observed: Observed) -> NDArray[np.int64]:
    """The topic of each pair: k-means on the words of its title, independent of any model.

    Titles are vectors of latent semantic analysis: TF-IDF, reduced to 50 dimensions.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    steps = make_pipeline(
        TfidfVectorizer(
            tokenizer=FOLDED.words, token_pattern=None, lowercase=False, sublinear_tf=True
        ),
        TruncatedSVD(_DIMENSIONS, random_state=0),
        Normalizer(),
        KMeans(TOPICS, n_init=4, random_state=0),
    )
    topics: NDArray[np.int64] = steps.fit_predict([title for _, title in observed.pairs])
    return topics


def _log_rows(rows: pl.DataFrame) -> list[LogRow]:
    return [*map(LogRow._make, rows.select(*SCHEMA).iter_rows())]


def _sample(rows: Sequence[T], count: int) -> list[T]:
    """A random sample of the rows in their order, with seed 0."""
    indices = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[index] for index in sorted(indices)]


def _pairs(rows: Sequence[LogRow]) -> list[tuple[str, str]]:
    """A sample of the distinct pairs that have words in both texts."""
    distinct = list(dict.fromkeys((row.query, row.title) for row in rows))
    return _sample([pair for pair in distinct if all(map(FOLDED.words, pair))], ANALYZED_PAIRS)
