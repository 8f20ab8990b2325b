"""Skip-thought vectors: sentences encoded so that their neighbours can be told from them.

May import text, tables and what every room uses.
"""

RESETS = ("before", "after")
"""Where a GRU's reset gate acts: before or after the product with the recurrent matrix."""
