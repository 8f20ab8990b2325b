"""Resolves the settings of a configuration that depend on the data and on files."""

from __future__ import annotations

from dssm_tf.common.errors import UserError
from dssm_tf.config import Config
from dssm_tf.data.graded_sources import with_file_hashes
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.training.starts import trains_on_titles


def resolve_files(config: Config) -> Config:
    """The configuration with the SHA-256 of each file of lists.

    Raises:
        UserError: a file cannot be read or has another SHA-256 than its section, or there is no
            source to train on.
    """
    hashed = with_file_hashes(config.lists)
    if not (hashed or config.training.clicks):
        raise UserError(
            "training.clicks: false leaves nothing to train on; give --judgments or --teacher."
        )
    return config.model_copy(update=hashed)


def resolve_config(config: Config, data: Preprocessed) -> tuple[Config, Preprocessed]:
    """The configuration with all values fixed, and the data with the configured vocabulary.

    This sets the SHA-256 of each file of lists and replaces `loss.gamma: auto` and
    `score.text_cosine: auto`. The vocabulary keeps the letter n-grams of the configured kinds. With
    `whole_words`, it gets rows for whole words.

    Raises:
        UserError: see `resolve_files` and `Preprocessed.with_letter_ngrams`.
    """
    config = resolve_files(config)
    loss = config.loss.resolve(data.spec.count("titles"))
    score = config.score.resolve(has_clicks=not trains_on_titles(config, data))
    config = config.model_copy(update={"loss": loss, "score": score})
    data = data.with_letter_ngrams(config.letter_ngrams)
    if config.whole_words:
        data = data.with_whole_words(config.max_whole_words)
    return config, data
