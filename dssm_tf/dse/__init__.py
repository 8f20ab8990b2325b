"""Deep semantic embedding (Wu et al. 2014), SSI and PSI: bags, RBMs, training, experiments.

May import baselines, evaluation's numbers, losses and text.
"""
