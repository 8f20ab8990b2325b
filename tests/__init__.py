"""Tests; `reference/` holds the oracles."""
