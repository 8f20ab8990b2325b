"""Click logs to training records with Apache Beam, on one machine or on any runner.

May import text, tables and common, and of data what needs no TensorFlow, so that workers start in a
second and stay small; `tfds_builder` alone, which no worker runs, loads TensorFlow.
"""
