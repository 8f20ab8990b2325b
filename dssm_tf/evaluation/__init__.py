"""Ranks titles, computes metrics and tests differences; `reports` displays the results.

May import tables, text and common. Systems are passed in as scores or as a `Ranker`.
"""
