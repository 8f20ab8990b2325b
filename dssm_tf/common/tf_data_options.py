"""Options of every `tf.data.Dataset` in this package."""

from __future__ import annotations

import tensorflow as tf

WITHOUT_AUTOTUNING = tf.data.Options()
"""In TensorFlow 2.21 the end of an autotuned iterator may wait a minute for a sleeping thread."""
WITHOUT_AUTOTUNING.autotune.enabled = False
