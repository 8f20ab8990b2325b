"""Records, judgments and data sets: reading, writing, batching."""
