"""One trial: where it lies, what became of it, and running it to its end.

A trial is an ordinary run directory, `trials/ID/`, with a small record of how it ended beside it,
`trials/ID.json`. ID is of the whole configuration, of the data and of the versions of this package
and its libraries, so a trial that was done before is found again, whatever it was asked for with,
and one of other versions is not taken for it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import keras

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.versions import versions
from dssm_tf.data.format import SPEC
from dssm_tf.data.preprocessed import Preprocessed
from dssm_tf.model.run_files import HISTORY, RANKING, is_finished
from dssm_tf.training import train as training
from dssm_tf.tuning.plan import Trial

TRIALS = "trials"
_ID_DIGITS = 12
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of a trial.

    Args:
        status: `failed` with a reason, `waiting` until it is done.
        validation: `ndcg@1`, `ndcg@3`, `ndcg@10` with the prior, and `loss`, of the kept epoch.
        epochs: epochs trained.
        best_epoch: the epoch that was kept, from 1.
        prior_weight: weight of the log-prior of titles.
        seconds: of the last process that worked on it; None if it was killed just after the end.
        reason: why it failed, one line.
    """

    status: Literal["waiting", "finished", "failed"] = "waiting"
    validation: Mapping[str, float] = field(default_factory=dict)
    epochs: int | None = None
    best_epoch: int | None = None
    prior_weight: float | None = None
    seconds: float | None = None
    reason: str | None = None


def data_fingerprint(data: Path) -> str:
    """A SHA-256 of all that training reads of a data directory.

    Raises:
        UserError: a file is missing.
    """
    data = Preprocessed(data).directory  # whose files are those that the spec describes
    return hashlib.sha256((data / SPEC).read_bytes()).hexdigest()


@dataclass(frozen=True)
class TrialRun:
    """A trial on some data, in a directory.

    Args:
        trial: what to train.
        data: directory preprocess wrote.
        fingerprint: `data_fingerprint` of it.
        trials: directory of all trials.
    """

    trial: Trial
    data: Path
    fingerprint: str
    trials: Path

    @property
    def identity(self) -> str:
        """Twelve hexadecimal digits of configuration, data and versions."""
        text = f"{self.trial.config.model_dump_json()}\n{self.fingerprint}\n{versions()}"
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.trials / self.identity

    @property
    def record(self) -> Path:
        """The file that says how the trial ended."""
        return self.trials / f"{self.identity}.json"

    def outcome(self) -> Outcome:
        """What became of the trial so far.

        Raises:
            UserError: a file of it is damaged.
        """
        record = _read(self.record) if self.record.exists() else {}
        try:
            # The run itself is the witness: a kill may have come before the record was written.
            if is_finished(self.directory):
                return self._finished(record.get("seconds"))
            if record.get("status") == "failed":
                return Outcome("failed", seconds=record["seconds"], reason=record["reason"])
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise UserError(
                f"{self.directory} or {self.record.name} beside it is damaged ({error!r}); remove "
                "both, and the trial is run again."
            ) from None
        return Outcome()

    def _finished(self, seconds: float | None) -> Outcome:
        ranking = _read(self.directory / RANKING)
        history = _read(self.directory / HISTORY)
        best = ranking["best_epoch"]
        validation = dict(ranking["validation"]) | {"loss": history[best - 1]["val_loss"]}
        odd = [name for name, value in validation.items() if not math.isfinite(value)]
        if odd:
            reason = f"validation {odd[0]} is {validation[odd[0]]} after epoch {best}"
            return Outcome("failed", seconds=seconds, reason=reason)
        return Outcome("finished", validation, len(history), best, ranking["prior_weight"], seconds)

    def run(self, *, quiet: bool) -> Outcome:
        """Trains the trial, or goes on with it, and keeps how it ended.

        What goes wrong with one setting must not cost the others, so whatever training raises is
        the trial's outcome; but for what the setting cannot be blamed for: no space, no
        permission, the user's interrupt.
        """
        started = monotonic()
        problem: dict[str, Any] = {}
        try:
            training.train(self.trial.config, self.data, self.directory, quiet=quiet)
        except OSError:
            raise
        except UserError as error:
            problem = {"reason": _one_line(error)}
        except Exception as error:
            reason = f"{type(error).__name__}: {_one_line(error)}"
            problem = {"reason": reason, "traceback": traceback.format_exc()}
        finally:
            # Keras's global state and the last model's memory would grow with every trial.
            keras.utils.clear_session()
            gc.collect()
        with atomic_write(self.record) as file:
            record = {
                "status": "failed" if problem else "finished",
                "settings": dict(self.trial.settings),
                "seconds": round(monotonic() - started, 1),
            }
            json.dump(record | problem, file, indent=2)
            file.write("\n")
        return self.outcome()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError) as error:
        raise UserError(
            f"{path} is damaged ({_one_line(error)}); remove it and the trial's directory beside "
            "or above it, and the trial is run again."
        ) from None
