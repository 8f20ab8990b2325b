"""Explains trained models: training curves, matching words, recurrent cells and CLSM neurons.

May import model, towers, evaluation, reports, runtime, tables, text and common. Functions return
plain arrays; `reports/figures.py` plots them.
"""
