"""An `Evaluation` as people read it: tables, one page, files; may import evaluation and tables."""
