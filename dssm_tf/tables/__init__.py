"""Readers of users' files: click logs, judgments, corpora, texts, TREC files; every row is checked.

`read` reads them as columns; `columns` defines the rules of each column. May import text and
common.
"""
