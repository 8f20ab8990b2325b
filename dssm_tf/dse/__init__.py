"""Deep semantic embedding (Wu et al. 2014), and the linear methods SSI and PSI.

Read it in this order: `bag_of_words`, the input of the networks; `click_matrix` and
`tuple_batches`, the training data; `rbm` and `networks`; `settings`, `pretraining` and
`fine_tuning`; then the baselines in `rankers` and `dse_tfidf`.
`examples/dse_cora.py` and `examples/dse_wikispeedia.py` repeat the paper's tables.

May import baselines, tables, evaluation, text and common. `rankers` and `dse_tfidf` load Keras in
`fit` only.
"""
