"""Files that people give: click logs, judgments, TREC files, lists of texts; every row checked.

`reader` opens them all, `cells` says what a cell may hold. Imports neither TensorFlow nor Beam,
and pyarrow only to read Parquet.
"""
