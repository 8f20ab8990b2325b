from dssm_tf.analysis.explanation import explain as explain
from dssm_tf.api.click_data import ClickData as ClickData
from dssm_tf.api.evaluating import evaluate as evaluate
from dssm_tf.common.errors import UserError as UserError
from dssm_tf.export.load import load as load
from dssm_tf.runtime.vector_ranker import VectorRanker as VectorRanker
from dssm_tf.training.mine import mine as mine

__version__: str
__all__ = [
    "ClickData",
    "UserError",
    "VectorRanker",
    "__version__",
    "evaluate",
    "explain",
    "load",
    "mine",
]
