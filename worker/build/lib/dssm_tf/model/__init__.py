"""The model of a run: two towers and a cosine, its prior, raw texts in and scores out.

May import towers, data, evaluation's cache of titles, text and configuration.
"""
