"""Values the papers state for what they train, transcribed from their text and tables."""

from __future__ import annotations

DOC2VEC = {
    "min_count": 1,
    "window": 5,
    "vector_size": 100,
    "sample": 1e-4,
    "negative": 5,
    "epochs": 30,
}
"""Palangi et al. 2016, sec. V-B, by gensim's names of today."""
