"""Training records and what else preprocess writes: their format, reading them, batching them.

May import text and common.
"""
