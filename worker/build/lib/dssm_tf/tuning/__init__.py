"""Choosing settings on the validation part: `search` says what is tried, `tune` tries it.

Trials and their values are in Optuna's journal. May import training, data and configuration.
"""
