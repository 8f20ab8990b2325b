"""From scores to numbers that can be trusted: rank, measure, test; `reports` shows them.

May import tables, text and common: what is measured comes as scores or as a `Ranker`.
"""
