"""Files that people give: click logs, judgments, corpora, texts, TREC files; every row checked.

`read` reads them all in columns, `columns` says what a cell may hold. May import text and common.
"""
