"""What training starts from beside random weights: an earlier run, or rows as in TF-IDF."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.checksums import fingerprint
from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.config import Config
from dssm_tf.data.format import Title
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import EARLIER_RUN, known_queries, load_titles
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import Siamese
from dssm_tf.text.growth import check_grown, earlier_ids
from dssm_tf.text.rules import Rules
from dssm_tf.text.vocabulary import Vocabulary

_FREE = ("dropout", "initializer")  # what of a tower is no part of its weights' meaning


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What training takes over from an earlier run, whose records are not read again.

    A letter trigram that is new starts with the row of the first matrix that stood for it before:
    its hash bucket's, or zeros if unseen trigrams were dropped. So the model begins with the
    vectors that the earlier run gave every text, and a new trigram is learned as a difference
    from them. Differs from an initializer, whose random row would move every text that holds a
    new trigram away from what was learned, before anything is known of it.

    Args:
        run: the earlier run.
        fingerprint: of all its files.
        ngrams: letter trigrams it knew.
        weights: of the model to train, in the order of `Siamese.weights`.
        titles: those of the earlier run and of today, with the clicks of both: today's, and
            `ranking.earlier_clicks` times those of the earlier run.
        query_ids: of the queries that the earlier run learned from, increasing.
    """

    run: Path
    fingerprint: str
    ngrams: int
    weights: list[NDArray[np.float32]]
    titles: list[Title]
    query_ids: NDArray[np.int64]

    @classmethod
    def load(cls, run: Path | str, config: Config, data: Preprocessed) -> WarmStart:
        """Reads a finished run.

        Args:
            run: the earlier run.
            config: of the training to come.
            data: what it will be trained on.

        Raises:
            UserError: the run is missing, unfinished or damaged, has another tower, or the data
                were hashed with a vocabulary that does not go on from its own.
        """
        run = Path(run)
        earlier = SemanticRanker.load(run)
        _check_tower(earlier.config, config, run)
        check_grown(earlier.vocabulary, data.vocabulary, str(run))
        share = config.ranking.earlier_clicks
        return cls(
            run,
            fingerprint(run),
            len(earlier.vocabulary.ngrams),
            grown_weights(earlier.model, earlier.vocabulary, data.vocabulary),
            joined_titles(load_titles(run), data.titles, share, data.rules),
            known_queries(run),
        )

    def save(self, out: Path) -> None:
        """Writes into a run what it goes on from."""
        about = {
            "run": str(self.run),
            "fingerprint": self.fingerprint,
            "trigrams": self.ngrams,
        }
        with atomic_write(out / EARLIER_RUN) as file:
            json.dump(about, file, indent=2)
            file.write("\n")


def started_from(out: Path) -> str | None:
    """The fingerprint of the run that another goes on from; None for one that began anew."""
    path = out / EARLIER_RUN
    return read_json(path, "Train the run again.")["fingerprint"] if path.exists() else None


def _check_tower(before: Config, now: Config, run: Path) -> None:
    """Raises UserError if the weights of a run are not those of a configuration."""

    def described(config: Config) -> dict[str, Any]:
        arguments = config.tower.model_dump(mode="json")
        kept = {key: value for key, value in arguments.items() if key.split("_")[-1] not in _FREE}
        return {"tower": kept, "shared_towers": config.shared_towers}

    was, today = described(before), described(now)
    if was != today:
        raise UserError(
            f"--from {run} has another model, whose weights do not fit "
            f"({first_difference(was, today)}). Leave out --config and the run's own is taken, or "
            "train anew."
        )


def first_difference(was: Any, now: Any, name: str = "") -> str:
    """The first key whose value is another, in words.

    >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    'a.c was 2, now 3'
    """
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return f"{name[1:]} was {was!r}, now {now!r}"
    key = next(key for key in [*was, *now] if was.get(key) != now.get(key))
    return first_difference(was.get(key), now.get(key), f"{name}.{key}")


def grown_weights(model: Siamese, before: Vocabulary, now: Vocabulary) -> list[NDArray[np.float32]]:
    """The weights of a model whose first matrices have rows for a larger vocabulary.

    Args:
        model: trained with `before`.
        before: its vocabulary.
        now: one that goes on from it.

    Returns:
        One array a weight, those of the first matrices `(now.size + 1, units)`.
    """
    came_from = earlier_ids(before, now)
    rows = np.array([0 if one is None else one for one in came_from])
    seen = np.array([one is not None for one in came_from])
    return _with_first_matrices(model, lambda matrix: matrix[rows] * seen[:, None])


def joined_titles(
    earlier: Iterable[Title],
    today: Sequence[Title],
    share: float,
    rules: Rules,
) -> list[Title]:
    """Titles of an earlier run and of today, one a normalised text; today's spelling is kept.

    Args:
        earlier: of the run, with the clicks it counted.
        today: of the data.
        share: of the earlier clicks and queries that still count, 0 to 1; to whole numbers.
        rules: which titles are one.

    >>> from dssm_tf.text.rules import FOLDED
    >>> joined_titles([Title("A b", 4, 2), Title("c", 3, 1)], [Title("a B", 1, 1)], 0.5, FOLDED)
    [Title(text='a B', clicks=3, queries=2), Title(text='c', clicks=2, queries=0)]
    """
    joined = {rules.key(title.text): title for title in today}
    for text, *counts in earlier:
        now = joined.get(rules.key(text), Title(text))
        clicks, queries = (round(share * count) for count in counts)
        joined[rules.key(text)] = Title(now.text, now.clicks + clicks, now.queries + queries)
    return list(joined.values())


def rarity(titles: Iterable[str], vocabulary: Vocabulary) -> NDArray[np.float64]:
    """`1 + ln((1 + N) / (1 + n))` of each id, of `N` titles of which `n` hold it.

    Args:
        titles: of the log and of the corpus.
        vocabulary: its ids, hash buckets too; padding, id 0, is held by none.

    Returns:
        `(1 + vocabulary.size,)`.
    """
    holders, number = np.zeros(1 + vocabulary.size), 0
    for title in titles:
        number += 1
        words = vocabulary.words(title)
        holders[list({id for word in words for id in vocabulary.ngram_ids(word)})] += 1
    return 1 + np.log((1 + number) / (1 + holders))


def idf_start(
    model: Siamese, titles: Iterable[str], vocabulary: Vocabulary
) -> list[NDArray[np.float32]]:
    """The weights of an untrained model with the rows of its first matrices weighted by rarity.

    Random rows keep cosines: the inner product of two sums of rows is, on average, that of the
    texts' counts of letter trigrams, and of their TF-IDF vectors if each row is as long as its
    trigram is rare. The squares of a matrix keep their mean, and with it the size of what enters
    the next layer.

    Reference: Johnson and Lindenstrauss 1984; Achlioptas 2003, sec. 1, on random projections.
    """
    factor = rarity(titles, vocabulary)
    factor /= np.sqrt((factor[1:] ** 2).mean())
    return _with_first_matrices(model, lambda matrix: matrix * factor[:, None])


def _with_first_matrices(
    model: Siamese, change: Callable[[Any], NDArray[Any]]
) -> list[NDArray[np.float32]]:
    """The weights of a model, those of its first matrices changed."""
    first = [tower.hashing.kernel for tower in (model.query_tower, model.title_tower)]
    values = []
    for weight in model.weights:
        value = keras.ops.convert_to_numpy(weight)
        if any(weight is matrix for matrix in first):
            value = change(value).astype(value.dtype)
        values.append(value)
    return values
