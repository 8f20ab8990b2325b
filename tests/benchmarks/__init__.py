"""Benchmarks of speed, as ratios to a named rival in the same run; each module is a program."""
