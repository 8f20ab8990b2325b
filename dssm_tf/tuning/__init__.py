"""Choosing settings on the validation split: `search` defines the trials, `tune` runs them.

Trials and their values are in an Optuna study. May import training, data,
config, evaluation, tables and common.
"""
