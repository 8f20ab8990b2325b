from dssm_tf.analysis.explanation import explain as explain
from dssm_tf.api import ClickData as ClickData
from dssm_tf.commands.benchmark import run_benchmark as run_benchmark
from dssm_tf.commands.data import convert as convert
from dssm_tf.commands.data import split as split
from dssm_tf.commands.demo import demo as demo
from dssm_tf.commands.embed import embed as embed
from dssm_tf.commands.export import export_model as export_model
from dssm_tf.commands.index import index as index
from dssm_tf.commands.interleave import interleave as interleave
from dssm_tf.commands.preprocess import preprocess as preprocess
from dssm_tf.commands.report import report as report
from dssm_tf.commands.search import search as search
from dssm_tf.commands.serve import serve as serve
from dssm_tf.commands.teach import teach as teach
from dssm_tf.commands.train import train as train
from dssm_tf.commands.tune import tune as tune
from dssm_tf.common.errors import UserError as UserError
from dssm_tf.evaluation.evaluate import evaluate as evaluate
from dssm_tf.export.load import load as load
from dssm_tf.runtime.interleaving import team_draft as team_draft
from dssm_tf.runtime.trained_ranker import TrainedRanker as TrainedRanker
from dssm_tf.runtime.vector_ranker import VectorRanker as VectorRanker
from dssm_tf.training.mining import mine as mine
from pipelines.check import check as check

__version__: str
