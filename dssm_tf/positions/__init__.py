"""Position bias: estimates how often users examine each position, and weights clicks by it.

May import tables, common and NumPy only, because the launcher of `dssm preprocess` runs it.
"""
