"""Text to words to letter trigrams, in pure Python: what the Beam workers run.

`dssm_tf.text_features` does the same in TensorFlow ops; a property test keeps them equal.
`columns`, for pipelines, needs Polars. May import common.
"""
