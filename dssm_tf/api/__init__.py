"""The public interface: training on tables, models, indexes, and Keras's `fit`."""
