"""The public interface: training on tables, models, indexes, and Keras's `fit`.

May import every package except commands, benchmark, tuning and server.
"""
