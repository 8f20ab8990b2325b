"""The towers, one paper model per file. A tower turns a text batch into semantic vectors.

In docstrings, S14 is Shen et al. 2014 and P16 is Palangi et al. 2016.

May import layers and common. `dssm_tf.config.towers` lists them by name.
"""
