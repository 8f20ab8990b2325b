"""Training: from a configuration and a preprocessed directory to the weights of a run.

May import models, towers, scores, losses, optimizers, baselines, data, evaluation, tables, text,
configuration and common.
"""
