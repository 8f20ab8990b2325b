"""Tests. `reference/` contains independent implementations to compare with."""
