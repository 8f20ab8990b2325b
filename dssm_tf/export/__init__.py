"""Exports trained runs as SavedModels and compact models, and loads models of all kinds.

May import model, data, text and configuration.
"""
