"""The configuration of one model and its training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import Bool
from dssm_tf.config.lists import JudgmentsConfig, ListsConfig, TeacherConfig
from dssm_tf.config.losses import ClickSoftmaxConfig, LossConfig
from dssm_tf.config.optimizer import KerasOptimizerConfig, OptimizerConfig
from dssm_tf.config.scores import CosineConfig, ScoreConfig
from dssm_tf.config.section import Section
from dssm_tf.config.start import StartConfig
from dssm_tf.config.towers import TowerConfig
from dssm_tf.config.training import (
    NegativesConfig,
    RankingConfig,
    TrainingConfig,
    ValidationConfig,
)
from dssm_tf.text.rules import NgramKind, ordered_kinds


def _order_kinds(kinds: tuple[NgramKind, ...]) -> tuple[NgramKind, ...]:
    if not kinds or len({*kinds}) < len(kinds):
        raise PydanticCustomError("kinds", "input should have one or more kinds, each once")
    return ordered_kinds(kinds)


LetterNgrams = Annotated[
    tuple[NgramKind, ...],
    AfterValidator(_order_kinds),
    Field(json_schema_extra={"minItems": 1, "uniqueItems": True}),
]


class Config(Section):
    """One model and how it is trained."""

    tower: TowerConfig = Field(
        description="The network that turns a text into a vector; `words` turns each word into one."
    )
    score: ScoreConfig = Field(
        CosineConfig(), description="How a query is compared with a title; `maxsim` reads words."
    )
    shared_towers: Bool = Field(
        False, description="Whether queries and titles share one tower; the papers have two."
    )
    letter_ngrams: LetterNgrams = Field(
        ("trigrams",),
        description="Kinds of letter n-grams of a word: `trigrams` as in the papers, `pairs` of "
        "letters, `sorted_trigrams`, which words with swapped letters share. Preprocess must have "
        "written them.",
    )
    whole_words: Bool = Field(
        False,
        description="Whether each word that occurs at least twice in log and corpus has its own "
        "row in the first matrix, in addition to the rows of its letter n-grams.",
    )
    max_whole_words: PositiveInt = Field(
        100_000,
        description="Largest number of words with a row of their own, the most frequent ones. With "
        "512 units, 100,000 rows take 205 MB, and training needs about five times as much.",
    )
    loss: LossConfig = Field(ClickSoftmaxConfig(), description="Loss of the clicks.")
    judgments: JudgmentsConfig | None = Field(None, description="Grades to train on.")
    teacher: TeacherConfig | None = Field(None, description="Scores of a model to train on.")
    negatives: NegativesConfig = Field(
        NegativesConfig(), description="Titles that a clicked title is compared with."
    )
    optimizer: OptimizerConfig = Field(
        KerasOptimizerConfig(),
        description="The optimizer; `nesterov` is the LSTM-RNN paper's method.",
    )
    start: StartConfig = Field(
        StartConfig(), description="The weights that a training of words starts with."
    )
    training: TrainingConfig = Field(TrainingConfig(), description="Epochs, batches, stopping.")
    ranking: RankingConfig = Field(
        RankingConfig(), description="How the prior of titles enters the score."
    )
    validation: ValidationConfig = Field(
        ValidationConfig(), description="Size of the validation after each epoch."
    )

    @model_validator(mode="after")
    def _check_score(self) -> Config:
        """Raises an error if the score cannot read the towers."""
        if self.score.reads_words:
            if self.tower.name != "words":
                raise PydanticCustomError(
                    "score_and_tower",
                    "score: {score} compares words, so it needs the tower words; received {tower}",
                    {"score": self.score.name, "tower": self.tower.name},
                )
            if not self.shared_towers:
                raise PydanticCustomError(
                    "score_and_towers",
                    "score: {score} needs shared_towers: true, one vector for a word in queries "
                    "and titles",
                    {"score": self.score.name},
                )
            if self.training.precision != "float32":
                raise PydanticCustomError(
                    "score_and_precision",
                    "training.precision: {score} is trained in float32; received {precision}",
                    {"score": self.score.name, "precision": self.training.precision},
                )
        return self

    @model_validator(mode="after")
    def _check_start(self) -> Config:
        """Raises an error if the model has no rows of whole words to start or spell."""
        is_set = self.start.vectors != "none" or bool(self.start.spelling)
        if is_set and not (self.tower.name == "words" and self.whole_words):
            raise PydanticCustomError(
                "start",
                "start: vectors and spelling are for the tower words with whole_words: true; "
                "received {tower} and whole_words: {whole_words}",
                {"tower": self.tower.name, "whole_words": str(self.whole_words).lower()},
            )
        return self

    @model_validator(mode="after")
    def _check_letters_only(self) -> Config:
        """Raises an error if no word has a row of its own that could be left out."""
        if self.training.letters_only and not self.whole_words:
            raise PydanticCustomError(
                "letters_only",
                "training.letters_only: {fraction} needs whole_words: true; received false. "
                "Without whole words, all words are read by their letter n-grams only",
                {"fraction": self.training.letters_only},
            )
        return self

    def dump(self) -> str:
        """The configuration as YAML, every value spelled out."""
        text: str = yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)
        return text

    @property
    def lists(self) -> dict[str, ListsConfig]:
        """The sections that name a file of graded lists, by key."""
        sections = {"judgments": self.judgments, "teacher": self.teacher}
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def model_name(self) -> str:
        """The name of the model in tables: the score's if it compares words, else the tower's."""
        return self.score.name if self.score.reads_words else self.tower.name

    def check_files(self) -> None:
        """Raises UserError if a file to train on is missing."""
        for name, section in self.lists.items():
            if not Path(section.file).is_file():
                raise UserError(f"{name}.file: there is no file {section.file}.")
