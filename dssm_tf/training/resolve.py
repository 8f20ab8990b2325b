"""The settings of a configuration that depend on the data and on files."""

from __future__ import annotations

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.graded_sources import with_file_hashes
from dssm_tf.data.preprocessed import Preprocessed


def resolve_files(config: Config) -> Config:
    """The configuration with the SHA-256 of each file of lists.

    Raises:
        UserError: a file cannot be read or is not the one asked for, or nothing would be trained
            on.
    """
    hashed = with_file_hashes(config.lists)
    if not (hashed or config.training.clicks):
        raise UserError(
            "training.clicks: false leaves nothing to learn from; give --judgments or --teacher."
        )
    return config.model_copy(update=hashed)


def resolve_config(config: Config, data: Preprocessed) -> tuple[Config, Preprocessed]:
    """The configuration with nothing left open, and the data with the vocabulary it asks for.

    Resolved are the SHA-256 of each file of lists, rows for whole words, and `loss.gamma: auto`.

    Raises:
        UserError: see `resolve_files`.
    """
    config = resolve_files(config)
    loss = config.loss.resolve(data.spec.count("titles"))
    config = config.model_copy(update={"loss": loss})
    return config, data.with_whole_words() if config.whole_words else data
