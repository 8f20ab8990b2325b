"""From vectors to search: vector files, indexes, rankings side by side and joined.

May import baselines, tables and evaluation's ranking; loads no TensorFlow before it is needed.
"""
