"""What TensorBoard shows of a run: its titles in the projector, histograms of its gates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from dssm_tf.analysis.survey import readings
from dssm_tf.analysis.title_map import NONE
from dssm_tf.tables.cells import one_line
from dssm_tf.text.normalize import normalize
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.recurrent import RecurrentTower

VECTORS, METADATA, CONFIG = "vectors.tsv", "metadata.tsv", "projector_config.pbtxt"

_CONFIG = f"""embeddings {{
  tensor_name: "titles"
  tensor_path: "{VECTORS}"
  metadata_path: "{METADATA}"
}}
"""
_FEWEST = 10  # texts that are so long: of fewer, a histogram says nothing


def write_projector(
    directory: Path,
    vectors: NDArray[np.floating[Any]],
    titles: Sequence[str],
    categories: Mapping[str, str] | None = None,
) -> None:
    """Writes what TensorBoard's projector reads: vectors, their titles, and where both lie.

    Args:
        directory: that exists, for `tensorboard --logdir`.
        vectors: `(titles, dimension)`.
        titles: one a vector.
        categories: of titles in their normal form; a column more.
    """
    with (directory / VECTORS).open("w", encoding="utf-8") as file:
        np.savetxt(file, vectors, fmt="%.6g", delimiter="\t")
    shown = [one_line(title).strip() or "(empty)" for title in titles]
    # A table of one column has no header there.
    lines = shown if categories is None else [
        "title\tcategory",
        *(f"{one}\t{one_line(categories.get(normalize(one), NONE))}" for one in shown),
    ]  # fmt: skip
    (directory / METADATA).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (directory / CONFIG).write_text(_CONFIG, "utf-8")


def write_gates(
    directory: Path, tower: RecurrentTower, vocabulary: Vocabulary, texts: Sequence[str]
) -> None:
    """Writes histograms of every gate, cell and output; the step is the word's place, from 1.

    Words are counted as they are read, of a direction from the right from the last one.

    Args:
        directory: for `tensorboard --logdir`.
        tower: of the texts' side.
        vocabulary: its trigrams.
        texts: whose words are read.
    """
    values: dict[tuple[str, int], list[NDArray[np.floating[Any]]]] = defaultdict(list)
    for of_text in readings(tower, vocabulary, texts):
        for side, reading in zip(tower.directions, of_text, strict=True):
            for name, rows in reading.activations.items():
                tag = name if len(tower.directions) == 1 else f"{side}/{name}"
                read = rows[::-1] if reading.backwards else rows
                for place, row in enumerate(read, start=1):
                    values[tag, place].append(row)
    writer = tf.summary.create_file_writer(str(directory))
    with writer.as_default():
        for (tag, place), found in values.items():
            if len(found) >= min(_FEWEST, len(texts)):
                tf.summary.histogram(f"gates/{tag}", np.stack(found), step=place)
    writer.close()
