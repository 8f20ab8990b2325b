"""The model of a run: two towers and a score, the titles' prior, and a ranker of raw texts.

May import towers, scores, losses, optimizers, data, config, evaluation, runtime, tables, text and
common.
"""
