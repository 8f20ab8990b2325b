"""Choosing free parameters on the validation part: what to try, trying it, saying what won.

May import training, models, data and configuration.

`space` reads what a person wants tried, `plan` makes the trials of it, `trials` runs one and knows
what became of it, `tune` runs them all, `report` writes it down.
"""
