"""Deep semantic embedding (Wu et al. 2014), beside its linear rivals SSI and PSI.

To be read in this order: `bag_of_words`, what the networks read; `click_matrix` and
`tuple_batches`, what they learn from; `rbm` and `networks`; `settings`, `pretraining` and
`fine_tuning`; then the rows of `dssm benchmark` in `rankers` and `dse_tfidf`.
`examples/dse_cora.py` and `examples/dse_wikispeedia.py` repeat the paper's tables.

May import baselines, tables, evaluation's rank loss, text and common. Keras is loaded when
something is trained, not before.
"""
