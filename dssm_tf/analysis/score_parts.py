"""A score as the sum of its parts."""

from __future__ import annotations

from typing import NamedTuple


class ScoreParts(NamedTuple):
    """What a title is ranked by, in three parts.

    A weighted log-prior is negative for every title, that of a best-seller too. So it is shown
    relative to the average title that was clicked, which moves no title past another.

    Attributes:
        cosine: of the two vectors.
        clicks: the title's weighted log-prior less that of the average title: positive for a title
            that is clicked more.
        average: the weighted log-prior of the average title, the same in every score.
    """

    cosine: float
    clicks: float
    average: float

    @classmethod
    def of(cls, cosine: float, prior: float, mean_prior: float) -> ScoreParts:
        """The parts of `cosine + prior`.

        Args:
            cosine: of the two vectors.
            prior: the title's weighted log-prior.
            mean_prior: the mean of the weighted log-priors of the titles that were clicked.

        >>> print(ScoreParts.of(0.7, -0.15, -0.2))
        score 0.550 = cosine 0.700 + 0.050 for the title's clicks - 0.200 for any title
        """
        return cls(cosine, prior - mean_prior, mean_prior)

    @property
    def score(self) -> float:
        """What titles are ranked by."""
        return self.cosine + self.clicks + self.average

    def __str__(self) -> str:
        """The sum in words."""
        if not (self.clicks or self.average):
            return f"score {self.score:.3f} = cosine {self.cosine:.3f}"
        clicks, average = (f"{'-' if x < 0 else '+'} {abs(x):.3f}" for x in self[1:])
        return (
            f"score {self.score:.3f} = cosine {self.cosine:.3f} {clicks} for the title's clicks "
            f"{average} for any title"
        )
