"""Click logs to training records with Apache Beam, on one machine or on any runner.

May import text, tables, positions, common, and the modules of data that need no TensorFlow, so that
workers start in a second and stay small. The launcher also imports reports. The workers of `encode`
run a model, so it imports export and runtime. Only `tfds_builder`, which no worker runs, imports
TensorFlow.
"""
