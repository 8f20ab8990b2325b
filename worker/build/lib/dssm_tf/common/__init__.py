"""What every package uses: errors, whole files, progress, pages, sections of the configuration.

Imports no other package.
"""
