"""A hybrid that a benchmark chose, as a file: what `dssm search` fuses by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dssm_tf.common.errors import UserError
from dssm_tf.common.files import atomic_write
from dssm_tf.common.plain_data import read_json
from dssm_tf.retrieval.fusion import fill, linear_fusion, ranks

BM25, MODEL, PRIOR = "bm25", "model", "prior"


@dataclass(frozen=True)
class ChosenHybrid:
    """How to fuse rankings.

    Attributes:
        members: what is fused: `bm25`, `model` for a trained one, `prior` for the titles'
            log-prior, or another baseline's name.
        kind: `linear`, weighted scores, or `rrf`, reciprocal ranks.
        values: `scale` and `weights`, one a member; or `k`.
        depth: titles of each ranking that are joined.
        parameters: arguments of the member's constructor, by its place in `members`.
        chosen: on what, by which metric, and the mean there; for the reader of the file.
    """

    members: tuple[str, ...]
    kind: Literal["linear", "rrf"]
    values: Mapping[str, Any]
    depth: int
    parameters: tuple[Mapping[str, Any], ...]
    chosen: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Writes JSON."""
        with atomic_write(path) as file:
            json.dump(asdict(self), file, indent=2)
            file.write("\n")

    @classmethod
    def load(cls, path: Path | str) -> ChosenHybrid:
        """Reads what `save` wrote.

        Raises:
            UserError: the file is missing, or no such hybrid of BM25 and one model.
        """
        mend = "Give a file of the directory hybrids/ that `dssm benchmark` wrote."
        raw = read_json(Path(path), mend)
        try:
            lists = {name: tuple(raw[name]) for name in ("members", "parameters")}
            found = cls(**(raw | lists))
            found._check()
            # What this is to compute with is tried before a corpus is read.
            found.fuse(np.zeros((len(found.members), 2)))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise UserError(f"{path} holds no hybrid: {error}. {mend}") from None
        if sorted(found.members) not in ([BM25, MODEL], [BM25, MODEL, PRIOR]):
            raise UserError(
                f"{path} joins {', '.join(map(str, found.members))}; `dssm search` joins bm25 and "
                "one trained model, with or without the prior."
            )
        return found

    def _check(self) -> None:
        """Raises KeyError, TypeError or ValueError where a value is none of its field."""
        if self.kind not in ("linear", "rrf"):
            raise ValueError(f"kind is {self.kind!r:.60}; expected linear or rrf")
        if type(self.depth) is not int or self.depth < 1:
            raise ValueError(f"depth is {self.depth!r:.60}; expected at least 1")
        if len(self.parameters) != len(self.members):
            raise ValueError(f"{len(self.parameters)} parameters for {len(self.members)} members")
        numbers = [self.values["k"]] if self.kind == "rrf" else self.values["weights"]
        if not all(type(one) in (int, float) and 0 <= one < np.inf for one in numbers):
            raise ValueError(f"values are {dict(self.values)!r:.100}; expected numbers from 0 on")

    def of(self, member: str) -> Mapping[str, Any]:
        """The parameters of a member."""
        return self.parameters[self.members.index(member)]

    def fuse(self, scores: Sequence[NDArray[np.float64]] | NDArray[np.float64]) -> Any:
        """Fused scores `(titles,)`.

        Args:
            scores: `(members, titles)`, -inf for what a member does not list.
        """
        if self.kind == "rrf":
            return sum(1 / (self.values["k"] + ranks(own)) for own in scores)
        filled = [fill(own) for own in scores]
        # Sums that differ by rounding only are the same score.
        return linear_fusion(filled, self.values["weights"], self.values["scale"]).round(12)
