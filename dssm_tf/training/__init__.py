"""Training: from a configuration and a preprocessed directory to the weights of a run.

May import models, towers, losses, data, tables, evaluation's metrics, text and configuration.
"""
