"""Reports of an `Evaluation`: tables, an HTML page, and files.

May import evaluation, tables and common. Used by `dssm evaluate`, `dssm benchmark` and `dssm demo`.
"""
