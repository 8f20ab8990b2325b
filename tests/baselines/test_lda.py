"""LDA: topics equal those of tomotopy."""

import numpy as np
from pytest import approx

from dssm_tf.baselines.lda import LDA, load_tomotopy
from dssm_tf.text.rules import FOLDED
from tests.baselines.planted_topics import planted_clicks

TITLES = [title for _, title, _ in planted_clicks(300, seed=0)]


def test_topics_equal_those_of_tomotopy():
    model = LDA(topics=4, iterations=30, alpha=0.2, beta=0.05, seed=3).fit([], TITLES)
    library = load_tomotopy().LDAModel(k=4, alpha=0.2, eta=0.05, seed=3)
    library.optim_interval = 0
    for title in dict.fromkeys(TITLES):
        library.add_doc(FOLDED.words(title))
    for _ in range(3):
        library.train(10, workers=1)
    rows = [model.learned.terms.words.index(word) for word in library.used_vocabs]
    ours = model.learned.query_word_probabilities[rows]
    theirs = np.array([library.get_topic_word_dist(topic) for topic in range(4)]).T
    assert ours == approx(theirs, rel=1e-5)
