from dssm_tf.api.click_data import ClickData as ClickData
from dssm_tf.api.evaluating import evaluate as evaluate
from dssm_tf.api.loading import load as load
from dssm_tf.api.trained_model import TrainedModel as TrainedModel
from dssm_tf.common.errors import UserError as UserError
from dssm_tf.training.mine import mine as mine

__version__: str
__all__ = ["ClickData", "TrainedModel", "UserError", "__version__", "evaluate", "load", "mine"]
