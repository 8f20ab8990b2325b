"""Clients of a served ranker, and the configuration of TensorFlow Serving.

The client imports neither `dssm_tf` nor TensorFlow.
"""
