"""Towers: one paper model per file, each of which turns a text batch into semantic vectors.

May import layers and common. `dssm_tf.config.towers` lists them by name.
"""
