"""Files that people give: click logs, judgments, corpora, texts, TREC files; every row checked.

`reader` opens them all, `cells` says what a cell may hold. May import text and common; pyarrow only
to read Parquet.
"""
