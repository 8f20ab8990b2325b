"""Learning from lists whose titles have grades or a teacher's scores: files, batches, mixtures.

May import data, tables, config, losses and what they may; no model.
"""
