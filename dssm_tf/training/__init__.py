"""Training: from a configuration and a preprocessed directory to the weights of a run.

May import model, towers, scores, losses, optimizers, baselines, data, evaluation, tables, text,
config and common.
"""
