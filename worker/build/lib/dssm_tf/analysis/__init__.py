"""Looks into trained models: curves of training, why a title matches a query, words and cells.

May import model and what lies below it. Every function returns plain arrays; drawings are made of
them by common/figures.
"""
