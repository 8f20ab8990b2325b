"""Asking a served ranker: clients for TensorFlow Serving, and the configuration it runs with.

Imports nothing of this package and no TensorFlow.
"""
