"""The pipelines on local engines: Beam's job API, Flink, Spark, Prism; see `make test-engines`."""
