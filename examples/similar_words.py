r"""Prints the words that a model finds similar, or how alike it finds one word in several texts.

    python examples/similar_words.py --model RUN --word pizza
    python examples/similar_words.py --model RUN --word office --texts "microsoft office software" \
        "free office 2000" "apartment office hours"

Without `--texts`, the nearest words by the word vectors of doc2vec (Palangi et al. 2016, supplement
F) or by the first layer of a run, among the words of clicked titles (Wu et al. 2014, table 2). With
`--texts`, the word in the first text compared with the same word in the others, by the output of a
CLSM's convolution (Shen et al. 2014, table 2) or of a recurrent model at that word.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from dssm_tf import UserError, load
from dssm_tf.analysis.activations import word_activations
from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.common.markdown import marked, plain, table
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.model.siamese import normalize_vectors
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.recurrent import RecurrentTower
from dssm_tf.towers.tower import Tower


def contexts(
    tower: Tower, vocabulary: Vocabulary, word: str, texts: Sequence[str]
) -> list[tuple[str, float]]:
    """How alike a word of the first text is to the same word in the other texts.

    Args:
        tower: a `CLSM`, of which the features at the convolution are compared; or a
            `RecurrentTower`, of which y is. Other towers see no context.
        vocabulary: its trigrams.
        word: in each of the texts; where it is in one twice, its first place counts.
        texts: two or more.

    Returns:
        The other texts, each with the cosine of the word there, most alike first.

    Raises:
        UserError: the tower sees no context, or a text does not have the word.

    Reference: Shen et al. 2014, sec. 3.3 and table 2.
    """
    if not isinstance(tower, CLSM | RecurrentTower):
        raise UserError(f"{type(tower).__name__} has no vector for a word in its context.")
    if lacking := [text for text in texts if word not in vocabulary.words(text)]:
        raise UserError(f"{word!r} is not among the words that the model reads in {lacking[0]!r}.")
    vectors = []
    for words, found in word_activations(tower, vocabulary, texts):
        if isinstance(tower, RecurrentTower):
            found = np.concatenate([found[side]["y"] for side in tower.directions], axis=1)
        vectors.append(found[words.index(word)])
    return _most_alike(np.stack(vectors), texts[1:])


def neighbours(
    tower: Tower, vocabulary: Vocabulary, word: str, among: Iterable[str]
) -> list[tuple[str, float]]:
    """The words that the first matrix puts nearest to one, by the cosine of their sums.

    Args:
        tower: whose first matrix it is.
        vocabulary: its trigrams.
        word: to look at.
        among: the words to choose from.

    Returns:
        Words and cosines, nearest first.

    Raises:
        UserError: no trigram of the word is known.

    Reference: Wu et al. 2014, table 2, for DSE.
    """
    words = [one for one in dict.fromkeys([word, *among]) if vocabulary.ngram_ids(one)]
    if word not in words:
        raise UserError(f"the vocabulary has no letter trigram of {word!r}.")
    kernel = tower.hashing.kernel.numpy()
    sums = np.stack([kernel[list(vocabulary.ngram_ids(one))].sum(axis=0) for one in words])
    return _most_alike(sums, words[1:])


def _most_alike(vectors: np.ndarray, names: Sequence[str]) -> list[tuple[str, float]]:
    """The names of all vectors but the first, by their cosine to it."""
    unit = np.asarray(normalize_vectors(vectors))
    cosines = unit[1:] @ unit[0]
    return [(names[at], float(cosines[at])) for at in np.argsort(-cosines, kind="stable")]


def similar(model: str, word: str, texts: Sequence[str] = ()) -> str:
    """What the script prints: a table with cosines."""
    ranker = load(model)
    if isinstance(ranker, Doc2Vec) and not texts:
        found = ranker.most_similar(word)
    elif isinstance(ranker, SemanticRanker):
        tower, vocabulary = ranker.model.title_tower, ranker.vocabulary
        (word,) = vocabulary.words(word)[:1] or [word]
        if texts:
            rows = [
                [marked(vocabulary.words(text), [word]), f"{cosine:.3f}"]
                for text, cosine in contexts(tower, vocabulary, word, texts)
            ]
            return table([marked(vocabulary.words(texts[0]), [word]), "cosine"], rows)
        clicked = (one for title in ranker.prior.log_shares for one in vocabulary.words(title))
        found = neighbours(tower, vocabulary, word, clicked)[:10]
    else:
        raise UserError(f"{model} is neither a run nor doc2vec, which alone have such vectors.")
    rows = [[plain(one), f"{cosine:.3f}"] for one, cosine in found]
    return table([plain(word), "cosine"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="a run, or a saved doc2vec")
    parser.add_argument("--word", required=True)
    parser.add_argument("--texts", nargs="+", default=[], help="two or more that hold the word")
    options = parser.parse_args(argv)
    if len(options.texts) == 1:
        parser.error("--texts has one text; give two or more.")
    try:
        print(similar(options.model, options.word, options.texts))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
