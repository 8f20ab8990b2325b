"""The files that preprocess writes, graded lists, and batches made of both.

May import tables, config, text and common.
"""
