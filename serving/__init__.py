"""Clients of a served ranker, and the configuration of TensorFlow Serving.

Imports nothing of this package and no TensorFlow.
"""
