"""The library is loaded without a trace in the process around it."""

import subprocess
import sys
import textwrap

import numpy as np
import tensorflow as tf

from dssm_tf.evaluation import tf_ranking
from tests.relevant_ranks import relevant_ranks

RANKS = relevant_ranks(np.array([[0.1, 0.7, 0.3]]), np.array([[1, 0, 2]]))


def test_loading_it_changes_nothing_for_the_rest_of_the_process():
    code = """
        import os, sys
        import keras, numpy as np, tensorflow as tf
        from dssm_tf.evaluation import tf_ranking
        from tests.relevant_ranks import relevant_ranks

        def state():
            return dict(os.environ), set(dir(tf)), list(sys.path), list(sys.meta_path)

        before = state()
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
        kernel = model.predict(np.eye(2), verbose=0)
        ranks = relevant_ranks(np.array([[0.1, 0.7]]), np.array([[1, 0]]))
        assert tf_ranking.per_query(*ranks)["mrr@10"][0] == 0.5
        assert state() == before
        left = [n for n in sys.modules if n.split(".")[0] in ("tensorflow_ranking", "tf_keras")]
        assert not left, left
        assert keras.__version__.startswith("3")
        assert keras.layers.Dense is type(model.layers[-1])
        assert tf.keras.layers.Dense is keras.layers.Dense
        assert (model.predict(np.eye(2), verbose=0) == kernel).all()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_an_evaluation_between_two_draws_does_not_change_the_second():
    def second_draw(evaluate):
        tf.random.set_seed(7)
        tf.random.uniform([1])
        if evaluate:
            tf_ranking.per_query(*RANKS)
        return tf.random.uniform([3]).numpy()

    assert (second_draw(True) == second_draw(False)).all()


def test_no_query_and_no_metric_are_defined():
    nothing = relevant_ranks(np.zeros((0, 3)), np.zeros((0, 3)))
    assert tf_ranking.per_query(*nothing, ["ndcg@10"])["ndcg@10"].shape == (0,)
    assert tf_ranking.per_query(*RANKS, []) == {}
