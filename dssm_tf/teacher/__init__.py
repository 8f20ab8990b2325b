"""Another model's vectors as scores that a small model learns from.

May import benchmark, which reads vectors, data and what they may.
"""
