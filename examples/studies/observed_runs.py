"""Logs to learn from, pairs to look at, and trained runs, for `examples.studies.observations`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from numpy.typing import NDArray

import dssm_tf.datasets
from dssm_tf.analysis.activations import readings
from dssm_tf.common.errors import UserError
from dssm_tf.common.progress import progress_of
from dssm_tf.config import find_config, load_config
from dssm_tf.model.semantic_ranker import SemanticRanker, build_model
from dssm_tf.tables.click_log import LogRow, read_logs, write_log
from dssm_tf.tables.splits import HELD_OUT, is_held_out, split_by_query, split_by_time
from dssm_tf.text.rules import FOLDED
from dssm_tf.towers.lstm import LSTMRNN
from dssm_tf.training.train import train
from pipelines.preprocess import run

CLICKS = 6_000
PAIRS = 3_000
LOOKED_AT = 600
GRADED = 4_000
TOPICS = 20
_DIMENSIONS = 50
_SHARE = 0.2  # of the clicks, or of the queries, that is not learned from
_EPOCHS = 15


class Observed(NamedTuple):
    """A set of clicks in two.

    Attributes:
        name: of the set.
        learned: what the models are trained on.
        pairs: queries and titles of clicks that are not learned from.
        graded: query, title and grade of pairs whose queries are not learned from; empty where
            nobody judged.
    """

    name: str
    learned: list[LogRow]
    pairs: list[tuple[str, str]]
    graded: list[tuple[str, str, float]]


def best_buy(data: Path, whole: bool) -> Observed:
    """Of the earlier 80 % of the clicks the last 6,000, all if `whole`; pairs of later ones."""
    rows, _ = read_logs([data / "bestbuy" / "clicks.tsv"])
    split = split_by_time(rows, _SHARE)
    return Observed("bestbuy", split.learned[0 if whole else -CLICKS :], _pairs(split.judging), [])


def web_questions(data: Path, whole: bool) -> Observed:
    """The questions of the training split; pairs of the others."""
    del data, whole  # few, and it ships with the package
    table = Path(dssm_tf.datasets.__file__).parent / "webquestions" / "pairs.tsv"
    rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()[1:]]
    learned = [LogRow(query, title) for _, split, query, title in rows if split == "trainmodel"]
    others = [LogRow(query, title) for _, split, query, title in rows if split != "trainmodel"]
    return Observed("webquestions", learned, _pairs(others), [])


def home_depot(data: Path, whole: bool) -> Observed:
    """Pairs graded 1.6 or more of four fifths of the queries, of these 3,000 unless `whole`.

    Pairs and grades of the other queries.
    """
    rows, _ = read_logs([data / "homedepot" / "clicks.tsv"])
    split = split_by_query(rows, _SHARE)
    # Not `read_judgments`, which refuses a pair that was judged twice.
    header, *lines = (data / "homedepot" / "judgments.tsv").read_text("utf-8").splitlines()
    columns = [header.split("\t").index(name) for name in ("query", "title", "grade")]
    judged = [[line.split("\t")[column] for column in columns] for line in lines]
    graded = [
        (query, title, float(grade))
        for query, title, grade in judged
        if is_held_out(query, _SHARE, HELD_OUT)
    ]
    learned = split.learned if whole else _some(split.learned, PAIRS)
    return Observed("homedepot", learned, _pairs(split.judging), _some(graded, GRADED))


SETS = {"bestbuy": best_buy, "webquestions": web_questions, "homedepot": home_depot}


def trained(
    observed: Observed, systems: Sequence[str], seeds: int, out: Path, whole: bool = False
) -> dict[str, list[Path]]:
    """Trains what is not there yet; the runs of each system, one a seed.

    The shipped configurations, with at most 15 epochs and no second training on all records
    unless `whole`.
    """
    folder = out / observed.name
    log, data = folder / "clicks.tsv", folder / "data"
    if not data.exists():
        write_log(log, observed.learned)
        with contextlib.redirect_stdout(io.StringIO()):
            if run(["--input", str(log), "--output", str(data)]):
                raise UserError(f"{log} could not be preprocessed.")
    changed = [] if whole else [f"training.epochs={_EPOCHS}", "training.refit=false"]
    runs: dict[str, list[Path]] = {system: [] for system in systems}
    with progress_of(f"{observed.name}: training", seeds * len(systems), True, "runs") as task:
        for seed in range(seeds):
            for system in systems:
                config = load_config(find_config(system), [*changed, f"training.seed={seed}"])
                runs[system].append(folder / f"{system}-{seed}")
                train(config, data, runs[system][-1], quiet=True)
                task.advance(state=f"{system}, seed {seed}")
    return runs


def variants(ranker: SemanticRanker, system: str, seed: int) -> Iterator[str]:
    """Puts other weights into the model, one variant after another; yields its name.

    First as it is; an LSTM-RNN or RNN then untrained; a whole LSTM-RNN then with one of its gates
    held still, at its mean over the words of the looked-at titles.
    """
    yield system
    model, tower = ranker.model, ranker.model.query_tower
    weights = model.get_weights()
    if system in ("lstm", "rnn"):
        keras.utils.set_random_seed(seed)
        model.set_weights(
            build_model(
                ranker.config.tower, ranker.config.shared_towers, ranker.vocabulary.size
            ).get_weights()
        )
        yield f"{system} untrained"
    if system == "lstm":
        for gate, place in (("i", 2), ("f", 1)):
            model.set_weights(weights)
            texts = list(ranker.prior.log_shares)[:LOOKED_AT]
            seen = [one.activations[gate] for (one,) in readings(tower, ranker.vocabulary, texts)]
            hold(tower, place, np.concatenate(seen).mean(axis=0))
            yield f"{system} with {gate}(t) constant"
    model.set_weights(weights)


def hold(tower: LSTMRNN, place: int, gate: NDArray[np.floating]) -> None:
    """Makes a gate the same numbers `(cells,)` at every word.

    Place 1 is the forget gate, 2 the input gate.
    """
    cell, columns = tower.recurrence.cell, slice(place * tower.units, (place + 1) * tower.units)
    for weight, index, value in (
        (tower.hashing.kernel, (slice(None), columns), 0.0),
        (cell.recurrent_kernel, (slice(None), columns), 0.0),
        (cell.peephole_kernel, place, 0.0),
        (cell.bias, columns, np.log(gate / (1 - gate))),
    ):
        changed = np.array(weight.numpy())
        changed[index] = value
        weight.assign(changed)


def topics_of(observed: Observed) -> NDArray[np.int64]:
    """The topic of each pair: k-means on the words of its title, which knows no model.

    Weighted by tf-idf and brought to 50 dimensions, as latent semantic analysis does.
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
    found: NDArray[np.int64] = steps.fit_predict([title for _, title in observed.pairs])
    return found


def _some(rows: Sequence, number: int) -> list:
    """So many of the rows, drawn by seed 0, in their order."""
    chosen = np.random.default_rng(0).permutation(len(rows))[:number]
    return [rows[row] for row in sorted(chosen)]


def _pairs(rows: Sequence[LogRow]) -> list[tuple[str, str]]:
    """Some of the distinct pairs that have words on both sides."""
    distinct = list(dict.fromkeys((row.query, row.title) for row in rows))
    return _some([pair for pair in distinct if all(map(FOLDED.words, pair))], LOOKED_AT)
