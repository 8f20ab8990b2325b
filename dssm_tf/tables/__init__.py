"""Files that people give: one reader of all formats (`reader`, `table`, `formats`), what a cell may
hold (`cells`), and what stands in click logs, judgments, TREC files and lists of texts.

Every row is checked. Imports neither TensorFlow nor Beam, and pyarrow only to read Parquet.
"""
