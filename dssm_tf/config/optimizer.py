"""Optimizers and learning-rate schedules of a configuration, and their parameters.

Keras is imported by `build`, so that a configuration is checked without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from dssm_tf.common.errors import UserError
from dssm_tf.common.field_types import Fraction, PositiveFloat
from dssm_tf.config.section import Component, default_name

if TYPE_CHECKING:
    import keras


class ConstantSchedule(Component):
    """The learning rate does not change."""

    name: Literal["constant"] = "constant"

    def build(self, learning_rate: float, total_steps: int) -> float:
        """The learning rate."""
        del total_steps
        return learning_rate


class CosineSchedule(Component):
    """A linear warm-up, then half a cosine down to `end` (Loshchilov and Hutter 2017)."""

    name: Literal["cosine"] = "cosine"
    warmup: Fraction = Field(
        0.0, lt=1, description="Fraction of the steps during which the rate rises from 0."
    )
    end: Fraction = Field(
        0.0, description="Learning rate of the last step, as a fraction of `learning_rate`."
    )

    def build(self, learning_rate: float, total_steps: int) -> Any:
        """A `keras.optimizers.schedules.CosineDecay` over `total_steps` updates."""
        import keras

        warmup_steps = round(self.warmup * total_steps)
        decay_steps = max(1, total_steps - warmup_steps)
        if not warmup_steps:
            return keras.optimizers.schedules.CosineDecay(
                learning_rate, decay_steps, alpha=self.end
            )
        return keras.optimizers.schedules.CosineDecay(
            0.0,
            decay_steps,
            alpha=self.end,
            warmup_target=learning_rate,
            warmup_steps=warmup_steps,
        )


class ExponentialSchedule(Component):
    """The learning rate falls by the same factor per step, to `end` after the last one."""

    name: Literal["exponential"] = "exponential"
    end: Fraction = Field(
        0.01,
        gt=0,
        description="Learning rate after the last step, as a fraction of `learning_rate`.",
    )

    def build(self, learning_rate: float, total_steps: int) -> Any:
        """A `keras.optimizers.schedules.ExponentialDecay` over `total_steps` updates."""
        import keras

        return keras.optimizers.schedules.ExponentialDecay(
            learning_rate, max(1, total_steps), self.end
        )


ScheduleConfig = Annotated[
    ConstantSchedule | CosineSchedule | ExponentialSchedule, Field(discriminator="name")
]


class OptimizerOptions(Component):
    """Parameters of every optimizer."""

    learning_rate: PositiveFloat = Field(
        0.001, description="Learning rate; with a schedule, its highest value."
    )
    clip_norm: PositiveFloat | None = Field(
        None,
        description="Maximum norm of the gradient; a larger gradient is rescaled to it. With "
        "`nesterov` the norm is that of each tower, otherwise that of all variables together.",
    )
    schedule: ScheduleConfig = Field(
        ConstantSchedule(), description="How the learning rate changes during the training."
    )

    @property
    def depends_on_total_steps(self) -> bool:
        """Whether the learning rate depends on the total number of steps of the training."""
        return self.schedule.name != "constant"

    def check(self) -> None:
        """Builds the optimizer and makes one update, because Keras checks most options only then.

        Raises:
            UserError: Keras has no such optimizer, or the optimizer has no such option.
        """
        import keras

        variable = keras.Variable(0.5)
        try:
            optimizer = self.build()
            optimizer.build([variable])
            optimizer.apply([keras.ops.ones(())], [variable])
        except MemoryError:
            raise
        except Exception as error:  # of any class: TypeError, AttributeError, errors of TensorFlow
            raise UserError(
                f"optimizer: {self.name} does not accept {self.arguments()!r:.200} "
                f"({str(error).splitlines()[0]:.200}); see Keras's documentation of this optimizer."
            ) from None

    def build(self, total_steps: int = 1, averaging: float = 0.0) -> keras.optimizers.Optimizer:
        """The optimizer.

        Args:
            total_steps: number of updates of the training; schedules depend on it.
            averaging: momentum of the moving average of the weights; 0 for no average.
        """
        raise NotImplementedError


def _averaging_arguments(averaging: float) -> dict[str, Any]:
    return {"use_ema": True, "ema_momentum": averaging} if averaging else {}


class NesterovConfig(OptimizerOptions):
    """Nesterov's method with the momentum schedule of Palangi et al. 2016, algorithm 1."""

    name: Literal["nesterov"] = "nesterov"
    momentum: Fraction = Field(0.995, lt=1, description="Momentum of most updates.")
    edge_momentum: Fraction = Field(
        0.9, lt=1, description="Momentum of the first and of the last updates."
    )
    edge: Fraction = Field(
        0.02, description="Fraction of the updates, at either end, that have `edge_momentum`."
    )

    def build(self, total_steps: int = 1, averaging: float = 0.0) -> keras.optimizers.Optimizer:
        """See `OptimizerOptions.build`."""
        from dssm_tf.optimizers.nesterov import ScheduledNesterov

        return ScheduledNesterov(
            learning_rate=self.schedule.build(self.learning_rate, total_steps),
            total_steps=total_steps,
            clip_norm=self.clip_norm,
            momentum=self.momentum,
            edge_momentum=self.edge_momentum,
            edge=self.edge,
            **_averaging_arguments(averaging),
        )


class KerasOptimizerConfig(OptimizerOptions):
    """A Keras optimizer."""

    name: Literal[
        "adam",
        "adamw",
        "adamax",
        "adafactor",
        "adagrad",
        "adadelta",
        "ftrl",
        "lion",
        "nadam",
        "rmsprop",
        "sgd",
    ] = "adam"
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further arguments of the Keras optimizer."
    )

    @field_validator("options")
    @classmethod
    def _check_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Rejects options that have their own key in the configuration."""
        keys = {
            "learning_rate": "optimizer.learning_rate",
            "global_clipnorm": "optimizer.clip_norm",
            "use_ema": "training.averaging",
            "ema_momentum": "training.averaging",
        }
        for option in options:
            if option in keys:
                raise PydanticCustomError(
                    "option_is_key",
                    "{option} is not an option; set {key}",
                    {"option": option, "key": keys[option]},
                )
        return options

    def build(self, total_steps: int = 1, averaging: float = 0.0) -> keras.optimizers.Optimizer:
        """See `OptimizerOptions.build`."""
        import keras

        from dssm_tf.optimizers import Adam

        arguments = {
            "learning_rate": self.schedule.build(self.learning_rate, total_steps),
            "global_clipnorm": self.clip_norm,
            **_averaging_arguments(averaging),
            **self.options,
        }
        if self.name == "adam":
            return Adam(**arguments)
        optimizer_class = type(keras.optimizers.get(self.name))
        return optimizer_class(**arguments)


OptimizerConfig = Annotated[
    NesterovConfig | KerasOptimizerConfig, Field(discriminator="name"), default_name("adam")
]
