"""Helpers for every package: errors, atomic file writes, checksums, progress, field types.

Imports no other package of this project.
"""
