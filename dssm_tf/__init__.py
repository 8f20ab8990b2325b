"""Semantic rankers from search click logs.

Query text and clicked titles in, a SavedModel that scores raw strings out. Importing the package
is cheap: TensorFlow is loaded only by the modules that need it.
"""

__version__ = "0.1.0"
