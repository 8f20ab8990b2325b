"""Exports trained runs as SavedModels, compact models and for search engines, and loads models of all kinds.

May import model, data, text and configuration.
"""
