"""Explanations as Arrow tables, which pandas (`.to_pandas()`) and Polars take as data frames."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dssm_tf.analysis.cells import Reading, keywords
from dssm_tf.analysis.explanation import Explanation
from dssm_tf.analysis.neurons import winners


def words_table(explanation: Explanation) -> pa.Table:
    """A row for every word of both texts.

    Columns: `side`, `place` from 0, `word`, `adds`, `lost_without`; of a recurrent model also
    `moved_forwards` and, where it reads from the right, `moved_backwards` (null for the word read
    first) and `keyword`; of a CLSM `neurons_won`.
    """
    rows = []
    for side in (explanation.query, explanation.title):
        counts = {
            "moved_backwards" if reading.backwards else "moved_forwards": reading.moved()
            for reading in side.readings
        }
        keys = keywords(side.readings) if side.readings else []
        won = [] if side.features is None else [place for _, place in winners(side.features)]
        for place, word in enumerate(side.words):
            row = {
                "side": side.name,
                "place": place,
                "word": word,
                "adds": float(side.contributions[place]),
                "lost_without": float(side.lost[place]),
            }
            row |= {name: of[place] for name, of in counts.items()}
            row |= {"keyword": keys[place]} if keys else {}
            row |= {} if side.features is None else {"neurons_won": won.count(place)}
            rows.append(row)
    return pa.Table.from_pylist(rows)


def trigrams_table(explanation: Explanation) -> pa.Table:
    """A row for every known letter trigram: `side`, `place`, `word`, `trigram`, `adds`."""
    rows = [
        {"side": side.name, "place": place, "word": word, "trigram": trigram, "adds": adds}
        for side in (explanation.query, explanation.title)
        for place, (word, of_word) in enumerate(zip(side.words, side.trigrams, strict=False))
        for trigram, adds in of_word
    ]
    schema = pa.schema(
        [("side", pa.string()), ("place", pa.int64()), ("word", pa.string()),
         ("trigram", pa.string()), ("adds", pa.float64())]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def activations_table(reading: Reading) -> pa.Table:
    """A row for every word and cell: `place`, `word`, `cell`, and those there are of `ifocy`."""
    words, cells = next(iter(reading.activations.values())).shape
    place, cell = (one.ravel() for one in np.indices((words, cells)))
    columns = {"place": place, "word": np.array(reading.words)[place], "cell": cell}
    columns |= {name: np.ravel(values) for name, values in reading.activations.items()}
    return pa.table(columns)
