"""`dssm preprocess`: a click log to training records."""

from pipelines.preprocess import preprocess

__all__ = ["preprocess"]
