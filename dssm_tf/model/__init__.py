"""The model of a run: two towers and a cosine, the titles' prior, and a ranker of raw texts.

May import towers, data, text, configuration, and the size of evaluation's cache of titles.
"""
