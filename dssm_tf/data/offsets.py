"""What is added to a candidate's logit before the softmax."""

# A candidate that must not count. Finite, so that reduced-precision gradients stay free of NaN,
# and so low that exp() of it is exactly 0 in float32 whatever gamma is.
MASKED = -1e9
