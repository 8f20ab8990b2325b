"""The names of a run's files, beside those that preprocess gave it."""

CONFIG = "config.yaml"
WEIGHTS = "model.weights.h5"
RANKING = "ranking.json"  # its presence says that the run is finished
HISTORY = "history.json"
VERSIONS = "versions.json"
MODEL_CARD = "MODEL_CARD.md"
STATE = "state"
LOGS = "logs"
