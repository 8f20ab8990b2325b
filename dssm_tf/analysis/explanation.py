"""Why a title matches a query: what each word of both adds to their score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssm_tf.analysis.cells import ACTIVE, Reading, cell_keywords, keywords
from dssm_tf.analysis.contributions import losses, without_each, word_contributions
from dssm_tf.analysis.neurons import Link, links, winners
from dssm_tf.common.errors import UserError
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary

Array = NDArray[np.float64]

COSINE, SCORE = "cosine", "score"
# Two words are alike by their letters if they share half of the shorter one's trigrams.
_ALIKE = 0.5
_WORTH_A_SENTENCE = 0.1  # of the cosine
_GOES_WITH = 0.5  # of what a word adds, lost without the other word


@dataclass(frozen=True)
class Side:
    """One of the two texts.

    Attributes:
        name: `query` or `title`.
        words: as the model reads them.
        contributions: what each word adds to the cosine or score, `(words,)`: its Shapley value.
        standard_errors: of the contributions `(words,)`, where orders of the words were sampled;
            None where the values are exact.
        start: what the pair is worth with none of the side's words.
        lost: what the pair loses without each word, `(words,)`.
        readings: how each direction of a recurrent tower read the text; of a run.
        features: of a CLSM, `h_t(i)`, `(words, neurons)`; of a run.
    """

    name: str
    words: list[str]
    contributions: Array
    standard_errors: Array | None
    start: float
    lost: Array
    readings: Sequence[Reading] = ()
    features: NDArray[np.float32] | None = None

    def columns(self) -> dict[str, list[Any]]:
        """What is known of each word, by head.

        Reference: Palangi et al. 2016, tables I, II and V-X; Shen et al. 2014, tables 3 and 8.
        """
        found: dict[str, list[Any]] = {"adds": self.contributions.tolist()}
        if self.standard_errors is not None:
            found["standard error"] = self.standard_errors.tolist()
        found["lost without"] = self.lost.tolist()
        for reading in self.readings:
            way = "right to left" if reading.backwards else "left to right"
            found[f"cells moved of {min(ACTIVE, reading.y.shape[1])}, {way}"] = reading.moved()
        if self.readings:
            found["keyword"] = keywords(self.readings)
        if self.features is not None:
            won = [place for _, place in winners(self.features)]
            found["top neurons won"] = [won.count(place) for place in range(len(self.words))]
        return found

    def to_json(self) -> dict[str, Any]:
        """All of it but whole activations, as plain data: a record a word."""
        columns = {"word": self.words, **self.columns()}
        rows = zip(*columns.values(), strict=True)
        words = [dict(zip(columns, row, strict=True)) for row in rows]
        found: dict[str, Any] = {"words": words, "start": self.start}
        return found | ({"cell_keywords": cell_keywords(self.readings)} if self.readings else {})


@dataclass(frozen=True)
class Explanation:
    """A query and a title, and what matches between them.

    Attributes:
        model: its name.
        query: the query's side.
        title: the title's side.
        cosine: of their vectors.
        prior: the title's weighted log-prior.
        mean_prior: that of the average title.
        pairs: what each two words are worth together, `(query words, title words)`; see
            `contributions.losses`.
        notes: what a reader must know, in sentences.
        measure: what the words add to: `COSINE`, or `SCORE` for a model without vectors, whose
            score is then in `cosine`.
    """

    model: str
    query: Side
    title: Side
    cosine: float
    prior: float
    mean_prior: float
    pairs: Array
    notes: list[str]
    measure: str = COSINE

    @property
    def score(self) -> float:
        """What titles are ranked by."""
        return self.cosine + self.prior

    def parts(self) -> str:
        """What the score is made of.

        A weighted log-prior is negative for every title, that of a best-seller too. So it is shown
        relative to the average title that was clicked, which moves no title past another.
        """
        if self.measure == SCORE:
            return f"Score {self.score:.3f}"
        similarity = f"Similarity {self.cosine:.3f} (the cosine)"
        if not self.mean_prior:
            return similarity
        return f"{similarity}, popularity {self.prior - self.mean_prior:+.3f}"

    def sentences(self) -> list[str]:
        """The match in words, the query's strongest words first."""
        # Where a text without words is worth something, the words share the rest.
        whole = self.cosine - (self.query.start if self.measure == SCORE else 0.0)
        if whole <= 0:
            return ["The model finds nothing in common between the two texts."]
        adds = self.query.contributions
        found, others = [], []
        for place in np.argsort(-adds, kind="stable"):
            if abs(adds[place]) < _WORTH_A_SENTENCE * whole:
                others.append(place)
            else:
                found.append(f"{self._matched(place)} ({adds[place]:+.3f}).")
        if others:
            names = ", ".join(f"'{self.query.words[place]}'" for place in others)
            found.append(f"Of little weight: {names} ({adds[others].sum():+.3f}).")
        return found

    def _matched(self, place: int) -> str:
        """How a word of the query goes with the title."""
        word, adds = self.query.words[place], self.query.contributions[place]
        if adds < 0:
            return f"'{word}' speaks against it"
        if word in self.title.words:
            return f"'{word}' is in the title"
        if alike := self.alike(place):
            other, shared = alike
            return f"'{word}' matches '{other}' by shared letters, {' '.join(shared)}"
        partner = int(self.pairs[place].argmax())
        if self.pairs[place, partner] >= _GOES_WITH * adds:
            return f"'{word}' goes with '{self.title.words[partner]}', because of what was clicked"
        return f"'{word}' goes with the title as a whole, because of what was clicked"

    def alike(self, place: int) -> tuple[str, list[str]] | None:
        """The title's first word that shares half of its trigrams with a word of the query.

        Returns:
            The word and the shared trigrams; None where there is none, or it is the same word.
        """
        word = self.query.words[place]
        if word in self.title.words:
            return None
        mine = Counter(letter_ngrams(word))
        for other in dict.fromkeys(self.title.words):
            theirs = Counter(letter_ngrams(other))
            shared = mine & theirs
            if shared.total() >= _ALIKE * min(mine.total(), theirs.total()):
                return other, list(shared)
        return None

    def links(self) -> list[Link]:
        """The neurons of a CLSM that are high on both sides; none for other models."""
        query, title = self.query.features, self.title.features
        return [] if query is None or title is None else links(query, title)

    def to_json(self) -> dict[str, Any]:
        """All of it but whole activations, as plain data."""
        plain = ("model", "score", "measure", "cosine", "prior", "mean_prior", "notes")
        return {name: getattr(self, name) for name in plain} | {
            "query": self.query.to_json(),
            "title": self.title.to_json(),
            "pairs": self.pairs.tolist(),
            "neurons": [link._asdict() for link in self.links()],
            "sentences": self.sentences(),
        }


def explain(ranker: Any, query: str, title: str) -> Explanation:
    """Takes the score of a query and a title apart, for any model.

    The words of either side get their Shapley values while the other side stays whole: of the
    cosine if the model has vectors, else of the score. Values of texts of more than
    `contributions.MOST_WORDS` words are sampled. Of a run, its layers are read too.

    Args:
        ranker: a run, an export, a compact model or anything else that scores titles.
        query: raw text.
        title: raw text.

    Raises:
        UserError: a text has no word; or the model has a vocabulary with none of its trigrams.
    """
    texts = {"query": query, "title": title}
    vectors = hasattr(ranker, "weighted_prior")
    words = {
        side: (ranker.vocabulary if vectors else FOLDED).words(text) for side, text in texts.items()
    }
    notes: list[str] = []
    for side, text in texts.items():
        if vectors:
            notes += _unread(side, text, ranker.vocabulary)
        if not words[side]:
            raise UserError(f"the {side} {text!r} has no word, so there is nothing to explain.")

    def worth(queries: Sequence[str], titles: Sequence[str]) -> Array:
        if not vectors:
            return np.asarray(ranker.score_matrix(queries, tuple(titles)), np.float64)
        rows, columns = ranker.encode_queries(queries), ranker.encode_titles(titles)
        return rows.astype(np.float64) @ columns.astype(np.float64).T

    shortened = {side: [" ".join(words[side]), *without_each(words[side])] for side in texts}
    table = worth(shortened["query"], shortened["title"])
    *lost, pairs = losses(table)
    against: Sequence[Callable[[Sequence[str]], Array]] = (
        lambda part: worth(part, [" ".join(words["title"])])[:, 0],
        lambda part: worth([" ".join(words["query"])], part)[0],
    )
    sides = []
    for name, value, without in zip(texts, against, lost, strict=True):
        adds, errors = word_contributions(value, words[name])
        read: Sequence[Any] = ()
        if hasattr(ranker, "model"):
            from dssm_tf.analysis.activations import look_inside  # loads TensorFlow

            read = look_inside(ranker, name, words[name])
        start = float(value([""])[0])
        sides.append(Side(name, words[name], adds, errors, start, without, *read))
    prior = mean_prior = 0.0
    if vectors:
        prior, mean_prior = float(ranker.weighted_prior([title])[0]), ranker.mean_prior
        if not hasattr(ranker, "model"):
            notes.append(
                "An export does not show its layers: explain the run it was made from to see "
                "gates and neurons."
            )
    return Explanation(
        ranker.name, sides[0], sides[1], float(table[0, 0]), prior, mean_prior, pairs, notes,
        COSINE if vectors else SCORE,
    )  # fmt: skip


def _unread(side: str, text: str, vocabulary: Vocabulary) -> list[str]:
    """What of a text the model does not see, in sentences.

    Raises:
        UserError: it knows nothing of it.
    """
    words, notes = vocabulary.words(text), []
    unknown = [word for word in words if not vocabulary.ngram_ids(word)]
    if words and len(unknown) == len(words):
        raise UserError(
            f"the vocabulary has no letter trigram of the {side} {text!r}: its log had nothing "
            "like it, so the score means nothing."
        )
    if cut := len(vocabulary.rules.words(text)) - len(words):
        notes.append(
            f"The model reads the first {len(words)} words of the {side}; {cut} more were cut."
        )
    if unknown:
        names = ", ".join(f"'{word}'" for word in dict.fromkeys(unknown))
        notes.append(f"The vocabulary has no letter trigram of {names} in the {side}.")
    return notes
