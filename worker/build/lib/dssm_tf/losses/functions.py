"""The losses: from the scores and labels of a query's titles to one number a query.

All take `(batch, columns)`, in float32 whatever the model computes in, and return `(batch,)`, 0 for
a query without a rival:

    scores: of the titles, such as cosines.
    targets: 1 for the clicked title and else 0; grades or a teacher's scores in a graded list.
    mask: bool, false for a candidate that must not count.
    correction: in nats: the log of how many candidates the column stands for, less that of how
        often it was drawn (logQ); not read by the losses of graded lists.

Their parameters' defaults are in the tables of `dssm_tf.losses`.
"""

from __future__ import annotations

from keras import ops

# The logit of a candidate that must not count. Finite, so that reduced-precision gradients stay
# free of NaN, and so low that exp() of it is exactly 0 in float32 whatever gamma is.
_NEVER = -1e9
_SMALLEST = 1e-30  # a gain above 0 is larger, and its reciprocal is a float32


def click_softmax(scores, targets, mask, correction, gamma):
    """Negative log posterior of the clicked title under a softmax of scaled cosines, in nats.

    `-log softmax(gamma R + correction)`. Differs from a categorical cross-entropy by `gamma`,
    which widens the range of the cosine, and by the correction, with which a candidate counts for
    several, and is corrected for how often each is drawn (logQ). A configuration may have `auto`
    for gamma, which training replaces by a number.

    Reference: Palangi et al. 2016, eq. 4-5; Shen et al. 2014, eq. 5-6; without gamma
    Palangi et al. 2014, eq. 9.
    """
    logits = ops.where(mask, gamma * scores + correction, _NEVER)
    return ops.logsumexp(logits, axis=-1) - ops.sum(targets * logits, axis=-1)


def pairwise_logistic(scores, targets, mask, correction, gamma):
    """`log(1 + exp(-gamma (R(clicked) - R(rival))))`, summed over a query's rivals, in nats.

    Differs from `click_softmax` by looking at one rival at a time: many poor rivals weigh as
    much as one good one, where the softmax's gradient goes to the rivals that score highest.

    Reference: Burges et al. 2005 (RankNet), eq. 3 with target probability 1; Rendle et al. 2009
    (BPR), sec. 4.1.
    """
    behind = gamma * (scores - _clicked(scores, targets))
    return ops.sum(_rivals(targets, mask, correction) * ops.softplus(behind), axis=-1)


def hinge(scores, targets, mask, correction, margin):
    """`max(0, margin - R(clicked) + R(rival))`, summed over a query's rivals.

    Differs from `pairwise_logistic` by forgetting a rival that is a margin behind: only those
    that are too close are learned from. The margin is in units of the score, for cosines below 2.

    Reference: Joachims 2002 (ranking SVM), sec. 4.1, whose slack it is; Wu et al. 2014, eq. 14,
    with a margin of 1 for dot products.
    """
    lacks = ops.relu(margin + scores - _clicked(scores, targets))
    return ops.sum(_rivals(targets, mask, correction) * lacks, axis=-1)


def sigmoid(scores, targets, mask, correction, gamma, bias):
    """Binary cross-entropy of each title: clicked or rival, in nats.

    `log(1 + exp(-z(clicked)))` plus the sum over the rivals of `log(1 + exp(z(rival)))`, where
    `z = gamma R + bias`. Differs from the other losses by comparing each score with a constant,
    not with the clicked one's: scores mean the same for every query, so that one threshold can
    cut every list. The bias is below 0, because a query has many rivals and one click.

    Reference: Mikolov et al. 2013, eq. 4 (negative sampling); Zhai et al. 2023 (SigLIP), sec. 3.2,
    who start from gamma 10 and bias -10.
    """
    weights = _rivals(targets, mask, correction)
    logits = gamma * scores + bias
    clicked = ops.softplus(-_clicked(logits, targets)[..., 0])
    # A click alone would push all cosines to 1, which no ranking needs.
    clicked = ops.where(ops.any(weights > 0, axis=-1), clicked, 0.0)
    return clicked + ops.sum(weights * ops.softplus(logits), axis=-1)


def listwise_softmax(scores, targets, mask, correction, gamma):
    """Cross entropy between the titles' shares of gain and a softmax of scaled cosines, in nats.

    `- sum_i g_i / sum_j g_j log softmax(gamma R)_i` with the gain `g = 2^grade - 1` that NDCG has.
    Where one title has a grade and the others 0 it is `click_softmax`. Differs from the top one
    probabilities of Cao et al. 2007, which take a softmax of the grades too (that is `kl`, up to a
    constant): a title of grade 0 has no share. A query whose titles all have grade 0 has no loss.

    Reference: Bruch et al. 2019; Cao et al. 2007.
    """
    logits = ops.where(mask, gamma * scores, _NEVER)
    gains = ops.where(mask, ops.power(2.0, ops.cast(targets, scores.dtype)) - 1.0, 0.0)
    total = ops.sum(gains, axis=-1)
    shares = gains / ops.maximum(total, _SMALLEST)[..., None]
    entropy = ops.logsumexp(logits, axis=-1) - ops.sum(shares * logits, axis=-1)
    return ops.where(total > 0, entropy, 0.0)


def kl(scores, targets, mask, correction, gamma, temperature):
    """Kullback-Leibler divergence from a teacher's softmax to that of scaled cosines, in nats.

    `sum_i q_i log(q_i / p_i)` with `q = softmax(teacher / temperature)` and `p = softmax(gamma
    R)`. Differs from `listwise_softmax` by what a score of 0 says: nothing of its own, for a
    softmax depends on differences alone. With grades for a teacher's scores it is ListNet's loss,
    less a constant. Hinton et al. have one temperature on both sides and the loss times its square;
    here the sides have scales of their own, and a loss has a weight.

    The smaller the temperature, the more the teacher's first titles are all that counts: about a
    tenth of the range of its scores; the default is for cosines.

    Reference: Hinton et al. 2015; Cao et al. 2007.
    """
    teacher = ops.cast(targets, scores.dtype) / temperature
    q, p = (
        logits - ops.logsumexp(logits, axis=-1, keepdims=True)
        for logits in (ops.where(mask, teacher, _NEVER), ops.where(mask, gamma * scores, _NEVER))
    )
    return ops.sum(ops.where(mask, ops.exp(q) * (q - p), 0.0), axis=-1)


def margin_mse(scores, targets, mask, correction, gamma):
    """Mean squared error between the margins of scaled cosines and a teacher's, over all pairs.

    The mean over the pairs `i < j` of a query's titles of `((gamma R_i - gamma R_j) - (t_i -
    t_j))^2`, in squared units of the teacher. The paper has one pair a query, a relevant title and
    another; a list has them all, and their mean is twice the variance of `gamma R - t`, so that it
    costs one pass. Differs from `kl` in that the teacher's scale counts, and each pair as much as
    any other. Gamma is 1 for another cosine, and about half the range of a cross-encoder's logits.

    Reference: Hofstätter et al. 2020.
    """
    counts = ops.cast(mask, scores.dtype)
    number = ops.sum(counts, axis=-1)
    apart = ops.where(mask, gamma * scores - ops.cast(targets, scores.dtype), 0.0)
    mean = ops.sum(apart, axis=-1) / ops.maximum(number, 1.0)
    squares = ops.sum(counts * ops.square(apart - mean[..., None]), axis=-1)
    return 2.0 * squares / ops.maximum(number - 1.0, 1.0)


def _clicked(scores, targets):
    """The score of the clicked title, `(batch, 1)`."""
    return ops.sum(targets * scores, axis=-1, keepdims=True)


def _rivals(targets, mask, correction):
    """What each rival weighs in a sum over a query's rivals, as often as a softmax counts it."""
    rivals = ops.logical_and(mask, ops.equal(targets, 0))
    return ops.where(rivals, ops.exp(correction), 0.0)
