"""The `dssm` command line: one file a command, its flags and what it prints.

May import every package, but nothing heavy before a command runs.
"""
