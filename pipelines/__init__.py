"""Click logs to training records with Apache Beam, on one machine or on any runner.

May import text, tables, positions and common, and the modules of data that need no TensorFlow, so
that workers start in a second and stay small. Only `tfds_builder`, which no worker runs, imports
TensorFlow.
"""
