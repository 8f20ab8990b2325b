"""The pipelines on engines that run here: Beam's job API, Flink, Prism; see `make test-engines`."""
