"""From vectors to search: vector files, indexes, rankings side by side and joined.

May import models, systems and evaluation's ranking; loads no TensorFlow before it is needed.
"""
