"""Position bias: estimates how often users examine each position, and weights clicks by it.

Imports only `tables`, `common` and NumPy, because the launcher of `dssm preprocess` runs it.
"""
