"""Shared by all packages: errors, atomic files, progress, checksums, types of fields.

Imports no other package.
"""
