"""Ranks titles, computes metrics and tests differences; `reports` displays the results.

May import tables, text and common. A system is passed in as scores or as a `Ranker`.
"""
