"""A log in which the order of words decides, and what each model makes of it.

May import what trains and ranks, the pipelines that prepare a log, and the experiments of `dse` for
their reports.
"""
