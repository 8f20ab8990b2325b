"""Skip-thought vectors: encodings of sentences that predict the neighboring sentences.

Reference: Kiros et al. 2015.
"""
