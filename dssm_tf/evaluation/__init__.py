"""From scores to a table that can be trusted: rank, measure, test, report.

May import tables, text and common: what is measured comes as scores or as a `Ranker`.
"""
