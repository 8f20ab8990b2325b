r"""Prints the words that are most similar to a word, or compares a word in several texts.

    python examples/similar_words.py --model RUN --word pizza
    python examples/similar_words.py --model RUN --word office --texts "microsoft office software" \
        "free office 2000" "apartment office hours"

Without `--texts`, prints the nearest words by the word vectors of doc2vec (Palangi et al. 2016,
supplement F), or by the first layer of a run, among the words of clicked titles (Wu et al. 2014,
table 2). The score maxsim compares words by these cosines. With `--texts`, compares the word in the
first text with the same word in the others, by the output of a CLSM's convolution (Shen et al.
2014, table 2) or of a recurrent model at that word.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from dssm_tf import UserError, load
from dssm_tf.analysis.activations import word_activations
from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.model.maxsim_run import MaxSimRun
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.reports.markdown import plain, table, with_bold
from dssm_tf.scores.score import normalize_vectors
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower


def contexts(
    tower: Tower, vocabulary: Vocabulary, word: str, texts: Sequence[str]
) -> list[tuple[str, float]]:
    """Compares a word in the first text with the same word in the other texts.

    Args:
        tower: a `CLSM`, whose convolution features are compared, or a `RecurrentTower`, whose
            outputs y are compared. Other towers have no vectors of words in context.
        vocabulary: vocabulary of the tower.
        word: a word of each text; its first occurrence counts.
        texts: two or more texts.

    Returns:
        The other texts with the cosine of the word, most similar first.

    Raises:
        UserError: the tower has no vectors of words in context, or a text lacks the word.

    Reference: Shen et al. 2014, sec. 3.3 and table 2.
    """
    if not isinstance(tower, CLSM | RecurrentTower):
        raise UserError(f"{type(tower).__name__} has no vector for a word in its context.")
    if missing := [text for text in texts if word not in vocabulary.words(text)]:
        raise UserError(f"{word!r} is not among the words that the model reads in {missing[0]!r}.")
    vectors = []
    for words, activations in word_activations(tower, vocabulary, texts):
        if isinstance(tower, RecurrentTower):
            outputs = [activations[direction]["y"] for direction in tower.directions]
            activations = np.concatenate(outputs, axis=1)
        vectors.append(activations[words.index(word)])
    return _by_similarity(np.stack(vectors), texts[1:])


def neighbors(
    tower: Tower, vocabulary: Vocabulary, word: str, candidates: Iterable[str]
) -> list[tuple[str, float]]:
    """The nearest words by the cosine of the sums of their n-grams' rows in the first matrix.

    Args:
        tower: tower with the first matrix.
        vocabulary: vocabulary of the tower.
        word: the word to compare with.
        candidates: the words to rank.

    Returns:
        Words and cosines, nearest first.

    Raises:
        UserError: the vocabulary has no letter n-gram of the word.

    Reference: Wu et al. 2014, table 2, for DSE.
    """
    distinct = dict.fromkeys([word, *candidates])
    words = [candidate for candidate in distinct if vocabulary.ngram_ids(candidate)]
    if word not in words:
        raise UserError(f"the vocabulary has no letter n-gram of {word!r}.")
    kernel = tower.hashing.kernel.numpy()
    sums = np.stack([kernel[list(vocabulary.ngram_ids(w))].sum(axis=0) for w in words])
    return _by_similarity(sums, words[1:])


def _by_similarity(vectors: np.ndarray, names: Sequence[str]) -> list[tuple[str, float]]:
    """The names of all vectors except the first, sorted by their cosine with the first."""
    unit = np.asarray(normalize_vectors(vectors))
    cosines = unit[1:] @ unit[0]
    return [(names[i], float(cosines[i])) for i in np.argsort(-cosines, kind="stable")]


def similar(model: str, word: str, texts: Sequence[str] = ()) -> str:
    """A Markdown table of similar words, or of the word in several texts, with cosines."""
    ranker = load(model).ranker
    if isinstance(ranker, Doc2Vec) and not texts:
        nearest = ranker.most_similar(word)
    elif isinstance(ranker, SemanticRanker | MaxSimRun):
        tower, vocabulary = ranker.model.title_tower, ranker.vocabulary
        (word,) = vocabulary.words(word)[:1] or [word]
        if texts:
            rows = [
                [with_bold(vocabulary.words(text), [word]), f"{cosine:.3f}"]
                for text, cosine in contexts(tower, vocabulary, word, texts)
            ]
            return table([with_bold(vocabulary.words(texts[0]), [word]), "cosine"], rows)
        clicked = (w for title in ranker.prior.log_priors for w in vocabulary.words(title))
        nearest = neighbors(tower, vocabulary, word, clicked)[:10]
    else:
        raise UserError(f"{model} has no word vectors; expected a run or a saved doc2vec.")
    rows = [[plain(name), f"{cosine:.3f}"] for name, cosine in nearest]
    return table([plain(word), "cosine"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="a run, or a saved doc2vec")
    parser.add_argument("--word", required=True)
    parser.add_argument(
        "--texts", nargs="+", default=[], help="two or more texts that contain the word"
    )
    options = parser.parse_args(argv)
    if len(options.texts) == 1:
        parser.error("--texts has one text; expected two or more.")
    try:
        print(similar(options.model, options.word, options.texts))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
