"""A small server of exported models: TensorFlow Serving's gRPC and REST calls, in one process.

May import the rooms it serves from (export, retrieval, analysis) and the messages of `serving`;
loads no TensorFlow before a SavedModel is opened.
"""
