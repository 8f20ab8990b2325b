"""Converts texts to words and letter n-grams in pure Python, also on Beam workers.

`dssm_tf.text_features` does the same in TensorFlow ops; a property test compares both. May import
common.
"""
