"""`dssm benchmark`: many systems, one log, one set of judgments, one table.

`teacher` writes another model's scores for a small one to learn from. May import every room but
commands and tuning.

Each system and seed is fitted and measured in a process of its own (`worker`),
as many at a time as memory allows (`scheduler`), and its result is kept, so
that a killed benchmark goes on where it was. What is left is cheap and done
anew each time: fusions, tests, tables (`run_benchmark`).
"""
