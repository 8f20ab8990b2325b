"""An `Evaluation` as people read it: tables, one page, files.

May import evaluation, tables and common; `dssm evaluate`, `dssm benchmark` and `dssm demo` use it.
"""
