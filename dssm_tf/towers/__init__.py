"""The towers: one model per file, and the base classes `tower` and `recurrent`.

A tower turns a batch of texts into a vector of each text or, for `words`, of each word.

In docstrings, S14 is Shen et al. 2014 and P16 is Palangi et al. 2016.

May import layers and scores. `dssm_tf.config.towers` lists the towers by name.
"""
