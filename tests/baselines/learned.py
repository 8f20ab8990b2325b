"""What fitted baselines have learned, read out of them for tests to compare."""

import numpy as np

from dssm_tf.baselines.bi_phrases import phrase_keys
from dssm_tf.baselines.tokens import place_in


def concepts(model, queries):
    """The concepts that an LCE model adds to each query, with their probabilities."""
    found = model._concepts(queries)
    return [
        {model.terms.words[row.indices[i]]: float(row.data[i]) for i in range(row.nnz)}
        for row in found
    ]


def translations(model, word):
    """A title word's translations into query words and their probabilities, best first."""
    place = model.terms.ids.get(word)
    if place is None:
        return {}
    return _largest_first(model.translations[[place]], lambda i: model.terms.words[i])


def phrase_translations(model, phrase):
    """A title phrase's translations into query phrases and their probabilities, best first."""
    tokens = model.terms.tokens([phrase])
    length = len(tokens.ids)
    if not 0 < length <= model.longest or (tokens.ids < 0).any():
        return {}
    key = phrase_keys(tokens.ids, np.zeros(1, dtype=np.int64), length, tokens.size)
    place = place_in(key, model.title_phrases)
    row = model.bi_phrases[place[place >= 0]]
    return _largest_first(row, lambda i: _query_phrase(model, i)) if row.shape[0] else {}


def _query_phrase(model, place):
    """The words of a query phrase, which its key holds as digits."""
    key, base, words = int(model.query_phrases[place]), len(model.terms) + 1, []
    while key:
        key, digit = divmod(key, base)
        words.append(model.terms.words[digit - 1])
    return " ".join(reversed(words))


def _largest_first(row, name):
    order = np.lexsort((row.indices, -row.data))
    return {name(row.indices[i]): float(row.data[i]) for i in order}
