"""The systems that the papers compare with, one model per file, behind one interface.

May import evaluation, text and common. The registry of all baselines is `dssm_tf.systems`.
"""
