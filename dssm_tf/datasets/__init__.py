r"""Data that ships with the package; each folder holds its own ATTRIBUTION.md.

Example:
    >>> from importlib.resources import files
    >>> table = files("dssm_tf.datasets") / "webquestions" / "pairs.tsv"
    >>> table.read_text(encoding="utf-8").splitlines()[1].split("\t")[3]
    'natalie portman'
"""
