"""Exports for search engines on real nodes; see `make test-opensearch`."""
