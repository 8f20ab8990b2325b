"""Tests of exports on real nodes of OpenSearch and Elasticsearch; see `make test-opensearch`."""
