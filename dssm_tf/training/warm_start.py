"""Initial weights of a training: from an earlier run, or scaled by inverse document frequency."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import sha256_of
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.json_files import read_json
from dssm_tf.config import Config
from dssm_tf.data.format import Title
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import EARLIER_RUN, load_titles, training_pair_ids, training_query_ids
from dssm_tf.model.siamese import Siamese
from dssm_tf.model.trained_run import TrainedRun
from dssm_tf.text.document_frequencies import DocumentFrequencies
from dssm_tf.text.growth import check_grown, earlier_ids
from dssm_tf.text.rules import NgramKind, TextRules
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.training.first_matrices import (
    hashing_matrices,
    importance_matrices,
    weights_with_change,
)

# The last words of names of tower settings that do not affect the shapes of the weights.
_SHAPELESS_SETTINGS = (
    "dropout",
    "initializer",
)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Weights, titles, query ids and pair ids from an earlier run; its records are not read again.

    A new letter n-gram starts with the row of the first matrix that the earlier run used for it:
    the row of its hash bucket, or zeros if the earlier run dropped unknown n-grams. So at the
    start, every text has the same vector as in the earlier run, and training learns how a new
    n-gram differs from its earlier row. A random row would change the vector of every text that
    contains the new n-gram.

    Args:
        run: the earlier run.
        fingerprint: SHA-256 of all files of the earlier run.
        ngrams: number of n-grams in the vocabulary of the earlier run.
        weights: initial weights of the model to train, in the order of `Siamese.weights`.
        titles: titles of the earlier run and of the new data. Their clicks are the new ones plus
            `ranking.earlier_clicks` times those of the earlier run.
        query_ids: ids of the queries that the earlier run was trained on, increasing.
        pair_ids: ids of the pairs that the earlier run was trained on, increasing; None if unknown.
        frequencies: document frequencies of `titles`; None if the score reads no words.
    """

    run: Path
    fingerprint: str
    ngrams: int
    weights: list[NDArray[np.float32]]
    titles: list[Title]
    query_ids: NDArray[np.int64]
    pair_ids: NDArray[np.int64] | None
    frequencies: DocumentFrequencies | None

    @classmethod
    def load(
        cls,
        run: Path | str,
        config: Config,
        data: Preprocessed,
    ) -> WarmStart:
        """Reads a finished run.

        Args:
            run: the earlier run.
            config: the configuration to train. Its tower must have weights of the same shapes as
                the tower of the earlier run.
            data: the preprocessed directory to train on.

        Raises:
            UserError: the run is missing, unfinished or damaged; its weights do not fit the
                configuration; or the vocabulary of the data does not extend that of the run.
        """
        run = Path(run)
        earlier = TrainedRun.read(run)
        _check_same_model(earlier.config, config, data.rules.letter_ngrams, run)
        check_grown(earlier.vocabulary, data.vocabulary, str(run))
        titles = merge_titles(
            load_titles(run), data.titles, config.ranking.earlier_clicks, data.rules
        )
        frequencies = None
        if config.score.reads_words:
            words = data.vocabulary.words
            frequencies = DocumentFrequencies.from_titles(words(title.text) for title in titles)
        return cls(
            run,
            sha256_of(run),
            len(earlier.vocabulary.ngrams),
            extend_weights(earlier.model, earlier.vocabulary, data.vocabulary),
            titles,
            training_query_ids(run),
            training_pair_ids(run),
            frequencies,
        )

    def save(self, out: Path) -> None:
        """Writes a file that identifies the earlier run into the new run's directory."""
        summary = {
            "run": str(self.run),
            "fingerprint": self.fingerprint,
            "ngrams": self.ngrams,
        }
        with atomic_write(out / EARLIER_RUN) as file:
            json.dump(summary, file, indent=2)
            file.write("\n")


def training_frequencies(
    config: Config, data: Preprocessed, warm_start: WarmStart | None
) -> DocumentFrequencies | None:
    """The document frequencies of the titles that a run has; None if its score reads no words.

    Args:
        config: the configuration of the training.
        data: the preprocessed directory.
        warm_start: the earlier run, whose titles count too.
    """
    if not config.score.reads_words:
        return None
    return data.document_frequencies if warm_start is None else warm_start.frequencies


def earlier_fingerprint(out: Path) -> str | None:
    """The fingerprint of the earlier run that the run in `out` started from; None without one."""
    path = out / EARLIER_RUN
    return read_json(path, "Train the run again.")["fingerprint"] if path.exists() else None


def _check_same_model(
    earlier_config: Config, config: Config, letter_ngrams: Sequence[NgramKind], run: Path
) -> None:
    """Raises UserError if the earlier run's weights do not fit the model to train."""

    def describe(config: Config, letter_ngrams: Sequence[NgramKind]) -> dict[str, Any]:
        settings = config.tower.model_dump(mode="json")
        shape_settings = {
            key: value
            for key, value in settings.items()
            if key.split("_")[-1] not in _SHAPELESS_SETTINGS
        }
        return {
            "tower": shape_settings,
            "score": config.score.shape_settings(),
            "shared_towers": config.shared_towers,
            "letter_ngrams": [*letter_ngrams],
        }

    before = describe(earlier_config, earlier_config.letter_ngrams)
    now = describe(config, letter_ngrams)
    if before != now:
        raise UserError(
            f"--from {run} has another model, whose weights do not fit "
            f"({first_difference(before, now)}). Leave out --config to use the configuration "
            "of that run, or leave out --from."
        )


def first_difference(before: Any, now: Any, name: str = "") -> str:
    """The first key whose value differs, with both values.

    >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    'a.c was 2, now 3'
    """
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return f"{name[1:]} was {before!r}, now {now!r}"
    key = next(key for key in [*before, *now] if before.get(key) != now.get(key))
    return first_difference(before.get(key), now.get(key), f"{name}.{key}")


def extend_weights(
    model: Siamese, earlier: Vocabulary, extended: Vocabulary
) -> list[NDArray[np.float32]]:
    """The weights of a model, extended to a larger vocabulary; see `WarmStart`.

    Args:
        model: a model that was trained with `earlier`.
        earlier: the vocabulary of the model.
        extended: a vocabulary that extends it.

    Returns:
        One array per weight; those with a row for each n-gram have `extended.size + 1` rows.
    """
    earlier_rows = earlier_ids(earlier, extended)
    rows = np.array([0 if row is None else row for row in earlier_rows])
    is_known = np.array([row is not None for row in earlier_rows])
    return weights_with_change(
        model,
        [*hashing_matrices(model), *importance_matrices(model)],
        lambda matrix: matrix[rows] * is_known[:, None],
    )


def merge_titles(
    earlier_titles: Iterable[Title],
    new_titles: Sequence[Title],
    earlier_clicks: float,
    rules: TextRules,
) -> list[Title]:
    """Merges the titles of an earlier run and of the new data by normalized text.

    If both have a title, the spelling is that of the new data.

    Args:
        earlier_titles: titles of the earlier run, with their clicks.
        new_titles: titles of the new data.
        earlier_clicks: fraction of the earlier clicks and queries that still count, 0 to 1. Counts
            are rounded.
        rules: the normalization, which decides whether titles are equal.

    >>> from dssm_tf.text.rules import FOLDED
    >>> merge_titles([Title("A b", 4, 2), Title("c", 3, 1)], [Title("a B", 1, 1)], 0.5, FOLDED)
    [Title(text='a B', clicks=3, queries=2), Title(text='c', clicks=2, queries=0)]
    """
    merged = {rules.key(title.text): title for title in new_titles}
    for title in earlier_titles:
        new_title = merged.get(rules.key(title.text), Title(title.text))
        clicks = new_title.clicks + round(earlier_clicks * title.clicks)
        queries = new_title.queries + round(earlier_clicks * title.queries)
        merged[rules.key(title.text)] = Title(new_title.text, clicks, queries)
    return list(merged.values())


def smoothed_idf(counts: NDArray[np.int64], titles: int) -> NDArray[np.float64]:
    """`1 + ln((1 + N) / (1 + n))` of each id, where `n` of the `N` titles contain it.

    Args:
        counts: number of titles with each id of the vocabulary, `(1 + vocabulary.size,)`. Hash
            buckets have a value, too; id 0 is padding.
        titles: number of titles of the log and the corpus.
    """
    return np.asarray(1 + np.log((1 + titles) / (1 + counts)))


def idf_scaled_weights(
    model: Siamese, counts: NDArray[np.int64], titles: int
) -> list[NDArray[np.float32]]:
    """The weights of an untrained model, with rows of n-grams scaled by `smoothed_idf`.

    Random projections preserve inner products on average. A text's sum of random rows is a random
    projection of its n-gram counts. If each row is scaled by the IDF of its n-gram, the sum is a
    random projection of the text's TF-IDF vector. The mean square of the factors is 1, so the next
    layer's input has the same scale as before.

    Args:
        model: the untrained model.
        counts: see `smoothed_idf`.
        titles: see `smoothed_idf`.

    Reference: Johnson and Lindenstrauss 1984; Achlioptas 2003, sec. 1, on random projections.
    """
    factor = smoothed_idf(counts, titles)
    factor /= np.sqrt((factor[1:] ** 2).mean())
    return weights_with_change(
        model, hashing_matrices(model), lambda matrix: matrix * factor[:, None]
    )
