"""Skip-thought vectors: sentences encoded so that their neighbors can be predicted from them.

Reference: Kiros et al. 2015.
"""
