"""The section about the weights that a training starts with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dssm_tf.common.field_types import Bool, NonNegativeInt
from dssm_tf.config.section import Section


class StartConfig(Section):
    """The weights that a training starts with, in place of random ones; see docs/start_vectors.md.

    Only for the tower `words`, with `whole_words`.
    """

    vectors: str = Field(
        "none",
        description="Vectors that the rows of whole words start with: `none`, `wordllama`, "
        "`minilm`, or a file of word vectors in fastText's text format.",
    )
    sha256: str = Field(
        "",
        description="Expected SHA-256 of the file of word vectors; `train` records it in the run.",
    )
    spelling: Bool | Literal["auto"] = Field(
        False,
        description="Whether to train letter n-grams on words with generated typing errors. "
        "With clicks, before training on them; without clicks, at the end. `auto` lets the "
        "validation queries decide.",
    )
    title_epochs: NonNegativeInt = Field(
        1,
        description="Without clicks and start vectors: number of epochs on titles as their own "
        "queries.",
    )
