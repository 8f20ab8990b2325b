"""The systems that the papers compare with, one model per file, behind one interface.

May import text, tables of clicks and evaluation's metrics. The registry of all
baselines is `dssm_tf.systems`.
"""
