"""Exports trained runs in all formats, also for search engines, and loads models of all kinds.

May import model, systems, baselines, data, config, runtime, tables, text and common.
"""
