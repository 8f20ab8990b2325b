"""What a served model answers: the signatures of `dssm export`, which `dssm serve` has, too."""

INPUTS = {
    "score": ("queries", "titles"),
    "serving_default": ("queries", "titles"),
    "encode_query": ("queries",),
    "encode_title": ("titles",),
}
"""The names of each signature's inputs, all of them texts."""
