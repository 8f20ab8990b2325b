"""The towers of a configuration, and their parameters.

Keras is imported by `build`, so that a configuration is checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import Bool, Float, Fraction, OddInt, PositiveInt, Widths
from dssm_tf.config.section import Component

if TYPE_CHECKING:
    from dssm_tf.towers.tower import Tower

BiasInitializer = Literal["zeros", "random_normal", "random_uniform", "truncated_normal"]
Initializer = Literal[
    "glorot_uniform",
    "glorot_normal",
    "he_uniform",
    "he_normal",
    "lecun_uniform",
    "lecun_normal",
    "random_uniform",
    "random_normal",
    "truncated_normal",
    "orthogonal",
]
RecurrentInitializer = Literal[Initializer, "zeros"]
SquareInitializer = Literal[RecurrentInitializer, "identity"]


class DropoutOptions(Component):
    """Dropout of every tower; see `dssm_tf.towers.tower.Tower`."""

    dropout: Fraction = Field(
        0.0, lt=1, description="Fraction of the hashed words' entries dropped in training."
    )
    ngram_dropout: Fraction = Field(
        0.0, lt=1, description="Fraction of the words' letter n-grams dropped in training."
    )


class TowerOptions(DropoutOptions):
    """Parameters of all towers except `words`; see `dssm_tf.towers.tower.Tower`."""

    initializer: Initializer = Field(
        "glorot_uniform", description="Initializer of the first matrix."
    )


class DSSMConfig(TowerOptions):
    """A bag of letter n-grams through tanh layers (Huang et al. 2013)."""

    name: Literal["dssm"] = "dssm"
    widths: Widths = Field(
        (300, 300, 128),
        description="Units of each tanh layer; the last is the length of a semantic vector.",
    )

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.dssm import DSSM

        return DSSM(vocabulary_size, **self.arguments(), **options)


class CLSMConfig(TowerOptions):
    """Convolution over windows of words, maximum over the text (Shen et al. 2014)."""

    name: Literal["clsm"] = "clsm"
    window: OddInt = Field(3, description="Number of words in a window of the convolution; odd.")
    features: PositiveInt = Field(300, description="Feature maps of the convolution.")
    widths: Widths = Field(
        (128,), description="Units of each tanh layer after the maximum over the words."
    )

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.clsm import CLSM

        return CLSM(vocabulary_size, **self.arguments(), **options)


class RecurrentOptions(TowerOptions):
    """Parameters of every recurrent tower; see `dssm_tf.towers.recurrent.RecurrentTower`."""

    bias_initializer: BiasInitializer = Field("zeros", description="Initializer of the biases.")
    bptt_steps: PositiveInt | None = Field(
        None, description="Number of words that gradients are propagated back; null for all words."
    )


class RNNConfig(RecurrentOptions):
    """A plain recurrent network over words (Palangi et al. 2016, eq. 1)."""

    name: Literal["rnn"] = "rnn"
    hidden: PositiveInt = Field(
        288, description="Number of neurons; the length of a semantic vector."
    )
    recurrent_initializer: SquareInitializer = Field(
        "orthogonal", description="Initializer of the recurrent matrix."
    )

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.rnn import RNN

        return RNN(vocabulary_size, **self.arguments(), **options)


class LSTMOptions(RecurrentOptions):
    """Parameters of the LSTM towers; see `dssm_tf.towers.lstm.LSTMRNN`."""

    recurrent_initializer: RecurrentInitializer = Field(
        "orthogonal", description="Initializer of the recurrent matrices."
    )
    cells: PositiveInt = Field(
        96, description="Size of the cell state, and of the semantic vector per direction."
    )
    peepholes: Bool = Field(True, description="Whether the gates also read the cell state.")
    forget_gate: Bool = Field(
        True, description="Whether the forget gate is learned; without it, its value is 1."
    )
    forget_bias: Float = Field(1.0, description="Initial bias of the forget gate.")
    peephole_initializer: BiasInitializer = Field(
        "zeros", description="Initializer of the peephole weights."
    )


class LSTMConfig(LSTMOptions):
    """Peephole LSTM over words (Palangi et al. 2016, eq. 2)."""

    name: Literal["lstm"] = "lstm"

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.lstm import LSTMRNN

        return LSTMRNN(vocabulary_size, **self.arguments(), **options)


class BiLSTMConfig(LSTMOptions):
    """Two peephole LSTMs, one per reading direction (Palangi et al. 2016, sec. V)."""

    name: Literal["bilstm"] = "bilstm"

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.bilstm import BidirectionalLSTMRNN

        return BidirectionalLSTMRNN(vocabulary_size, **self.arguments(), **options)


class WordsConfig(DropoutOptions):
    """Vectors of single words, from their letter n-grams (Huang et al. 2013, sec. 3.2)."""

    name: Literal["words"] = "words"
    units: PositiveInt = Field(128, description="Length of a word's vector.")

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`."""
        from dssm_tf.towers.words import Words

        return Words(vocabulary_size, **self.arguments(), **options)


class CustomTowerConfig(Component):
    """A tower from outside this package, as Keras describes it. `train` writes this section."""

    name: Literal["custom"] = "custom"
    registered_name: str = Field(description="Name of the class in `register_keras_serializable`.")
    config: dict[str, Any] = Field(description="Result of the tower's `get_config`.")

    @classmethod
    def from_tower(cls, tower: Tower) -> CustomTowerConfig:
        """Describes a tower, without its name and without the size of its vocabulary.

        Raises:
            UserError: the class is not registered with Keras, or is not a `Tower`.
        """
        from dssm_tf.config.custom import describe
        from dssm_tf.towers.tower import Tower

        registered_name, config = describe(tower, Tower)
        for key in ("name", "dtype", "vocabulary_size"):
            config.pop(key, None)
        return cls(registered_name=registered_name, config=config)

    def build(self, vocabulary_size: int, **options: Any) -> Tower:
        """The tower. `options` are Keras's own: `name`, `dtype`.

        Raises:
            UserError: no class is registered under the name, or it is not a `Tower`.
        """
        from dssm_tf.config.custom import registered_class
        from dssm_tf.towers.tower import Tower

        tower_class = registered_class(self.registered_name, Tower)
        config = {**self.config, "vocabulary_size": vocabulary_size, **options}
        try:
            tower: Tower = tower_class.from_config(config)
        except TypeError as error:
            reason = str(error).split("\n")[0]
            raise UserError(f"tower: {self.registered_name}: {reason}") from None
        return tower


TowerConfig = Annotated[
    DSSMConfig
    | CLSMConfig
    | RNNConfig
    | LSTMConfig
    | BiLSTMConfig
    | WordsConfig
    | CustomTowerConfig,
    Field(discriminator="name"),
]
