"""Adam, with TensorFlow's own operation for the update."""

from __future__ import annotations

from typing import Any

import keras

from dssm_tf.common.keras_internals import InPlaceAverages, adam_moments


@keras.saving.register_keras_serializable(package="dssm_tf")
class Adam(InPlaceAverages, keras.optimizers.Adam):
    """Adam whose update needs hardly any memory beyond its variables on TensorFlow.

    Differs from `keras.optimizers.Adam` by one operation that updates a variable and both moments
    in place. Keras's update has about ten operations, and several of their results, each as large
    as the variable, are in memory at once. The formula is the same. Keras's update is still used
    on other backends, with `amsgrad`, and for gradients that have only some rows.

    Reference: Kingma and Ba 2015, "Adam: A method for stochastic optimization", sec. 2, the order
    of computation at its end.
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
        update = tf.cast(self.iterations + 1, dtype)
        beta_1, beta_2 = (tf.constant(beta, dtype) for beta in (self.beta_1, self.beta_2))
        momentum, velocity = adam_moments(self, variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=momentum.handle,
            v=velocity.handle,
            beta1_power=tf.pow(beta_1, update),
            beta2_power=tf.pow(beta_2, update),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(self.epsilon, dtype),
            grad=tf.cast(gradient, dtype),
        )
