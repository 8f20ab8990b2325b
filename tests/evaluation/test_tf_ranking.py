"""TensorFlow Ranking changes nothing else when loaded, and computes each query separately."""

import subprocess
import sys
import textwrap
from types import ModuleType

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

from dssm_tf.evaluation import metrics, tf_ranking
from tests.relevant_ranks import relevant_ranks

RANKS = relevant_ranks(np.array([[0.1, 0.7, 0.3]]), np.array([[1, 0, 2]]))


@pytest.mark.long
def test_loading_the_library_changes_nothing_else_in_the_process():
    code = """
        import os, sys
        import keras, numpy as np, tensorflow as tf
        from dssm_tf.evaluation import tf_ranking
        from tests.relevant_ranks import relevant_ranks

        def state():
            return dict(os.environ), set(dir(tf)), list(sys.path), list(sys.meta_path)

        def import_error():
            try:
                import tensorflow_ranking
            except ImportError as error:
                return str(error)

        failure = import_error()
        assert "estimator" in failure
        before = state()
        imported = []
        sys.addaudithook(lambda event, words: imported.append(words[0]) if event == "import" else 0)
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
        output = model.predict(np.eye(2), verbose=0)
        ranks = relevant_ranks(np.array([[0.1, 0.7]]), np.array([[1, 0]]))
        assert tf_ranking.per_query(*ranks)["mrr@10"][0] == 0.5
        assert state() == before
        names = [name for name in (*imported, *sys.modules) if "ranking" in name]
        assert not [name for name in names if not name.startswith("dssm_tf.")], names
        assert "tf_keras" not in sys.modules
        assert import_error() == failure
        assert keras.__version__.startswith("3")
        assert keras.layers.Dense is type(model.layers[-1])
        assert tf.keras.layers.Dense is keras.layers.Dense
        assert (model.predict(np.eye(2), verbose=0) == output).all()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_an_evaluation_between_two_random_draws_does_not_change_the_second():
    def second_draw(evaluate):
        tf.random.set_seed(7)
        tf.random.uniform([1])
        if evaluate:
            tf_ranking.per_query(*RANKS)
        return tf.random.uniform([3]).numpy()

    assert (second_draw(True) == second_draw(False)).all()


def test_without_queries_or_metrics_the_result_is_empty():
    nothing = relevant_ranks(np.zeros((0, 3)), np.zeros((0, 3)))
    assert tf_ranking.per_query(*nothing, ["ndcg@10"])["ndcg@10"].shape == (0,)
    assert tf_ranking.per_query(*RANKS, []) == {}


def test_another_version_of_the_library_is_refused(tmp_path):
    file = tmp_path / "metrics_impl.py"
    file.write_text("from tensorflow_ranking import utils\n", "utf-8")
    with pytest.raises(ImportError, match=r"install tensorflow-ranking==0\.5\.3"):
        tf_ranking._run_file(file, ModuleType("metrics"), without=tf_ranking._IMPORT_OF_UTILS)


def test_long_and_short_rankings_in_one_call_have_independent_values():
    names = ("ndcg@1", "ndcg@10", "map")
    random = np.random.default_rng(0)
    count, depth = 40, 60_000  # several batches of `tf_ranking`, the last with long rankings
    ranked = np.concatenate(
        [np.sort(random.choice(depth, 3, replace=False)) + 1 for _ in range(count)]
    )
    ranked[:30] = np.arange(30) % 3 + 1
    grade = random.integers(1, 4, 3 * count).astype(float)
    table = {"query": np.repeat(np.arange(count), 3), "rank": ranked, "grade": grade}
    ranks = pl.DataFrame(table), count
    numpy_values, tf_ranking_values = (
        metrics.per_query(*ranks, names),
        tf_ranking.per_query(*ranks, names),
    )
    for name in names:
        assert tf_ranking_values[name] == pytest.approx(numpy_values[name], abs=1e-6)
