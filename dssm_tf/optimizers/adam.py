"""Adam, with TensorFlow's own operation for the update."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.common.keras_internals import LeanMovingAverages, adam_moments


@keras.saving.register_keras_serializable(package="dssm_tf")
class Adam(LeanMovingAverages, keras.optimizers.Adam):
    """Adam that updates each variable in place on TensorFlow, without temporary tensors.

    Differs from `keras.optimizers.Adam` by one operation that updates a variable and both moments.
    Keras's update has several operations, whose results are as large as the variable. The formula
    is the same, and results are equal up to rounding. Keras's update is still used on other
    backends, with `amsgrad`, and for sparse gradients (`tf.IndexedSlices`).

    Reference: Kingma and Ba 2015, "Adam: A method for stochastic optimization", the more efficient
    form at the end of sec. 2.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable and its moments.

        Args:
            gradient: of the shape of the variable.
            variable: the variable, or a replica's copy of it.
            learning_rate: scalar.
        """
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        import tensorflow as tf

        if isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        dtype = variable.dtype
        step = tf.cast(self.iterations + 1, dtype)
        beta_1, beta_2 = (tf.constant(beta, dtype) for beta in (self.beta_1, self.beta_2))
        first_moment, second_moment = adam_moments(self, variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first_moment.handle,
            v=second_moment.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )
