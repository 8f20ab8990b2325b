"""Graded lists to train on: titles of a query with grades, or with a teacher's scores.

May import data, tables, config, losses and what they import; no model.
"""
