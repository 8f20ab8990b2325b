"""Position bias: how often a title's place in the list is looked at, and clicks weighed by it.

Imports `tables` and `common` alone, and NumPy: the launcher of `dssm preprocess` runs it.
"""
