"""Skip-thought vectors: sentences encoded so that their neighbours can be told from them.

Reference: Kiros et al. 2015.
"""
