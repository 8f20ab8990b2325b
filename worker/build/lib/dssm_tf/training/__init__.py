"""A training run, from configuration to weights.

May import models, towers, losses, data, tables, evaluation's metrics, text and configuration.
"""
