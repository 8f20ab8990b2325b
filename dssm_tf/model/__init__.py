"""The model of a run: two towers and a score, the titles' prior, and a ranker of raw texts.

May import towers, scores, optimizers, data, config, runtime, tables and text. The ranker caches as
many lists of titles as `dssm_tf.evaluation` needs.
"""
