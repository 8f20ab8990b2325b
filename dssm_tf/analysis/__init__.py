"""Explains trained models: training curves, matching words, recurrent cells and CLSM neurons.

May import `model` and the layers below it. Functions return plain arrays; `reports/figures.py`
plots them.
"""
