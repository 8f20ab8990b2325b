"""The towers, one paper model per file. A tower turns a text batch into semantic vectors.

May import layers and common. `dssm_tf.config.towers` lists them by name.
"""
