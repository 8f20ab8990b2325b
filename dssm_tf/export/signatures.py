"""The signatures of models that `dssm export` writes and `dssm serve` serves."""

INPUTS = {
    "score": ("queries", "titles"),
    "serving_default": ("queries", "titles"),
    "encode_query": ("queries",),
    "encode_title": ("titles",),
}
"""The names of each signature's inputs. All inputs are texts."""
