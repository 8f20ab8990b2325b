"""A training run, from configuration to weights.

May import models, losses, data and the metrics of evaluation.
"""
