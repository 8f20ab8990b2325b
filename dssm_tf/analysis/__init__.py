"""Looks into trained models: curves of training, why a title matches a query, words and cells.

May import model and the layers below it. Every function returns plain arrays;
`reports/figures.py` plots them.
"""
