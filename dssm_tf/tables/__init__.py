"""Files that people give: click logs, judgments, corpora, texts; every row checked.

May import text and common.
"""
