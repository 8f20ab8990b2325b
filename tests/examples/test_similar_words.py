"""Words in context and neighbours, on towers set by hand, and the script."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.common.errors import UserError
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers import TOWERS
from dssm_tf.towers.clsm import CLSM
from dssm_tf.towers.dssm import DSSM
from examples.similar_words import contexts, main, neighbours
from tests.choices import small
from tests.clicks import Click, click_log, write_data
from tests.runs import finished_run

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS for n in letter_ngrams(word)), FOLDED)


def one_cell_a_word(made):
    """A tower whose first matrix gives each word a unit of its own."""
    keras.utils.set_random_seed(0)
    made.build()
    kernel = np.zeros(made.hashing.kernel.shape)
    for unit, word in enumerate(WORDS):
        kernel[list(VOCABULARY.ngram_ids(word)), unit] = 1.0
    made.hashing.kernel.assign(kernel)
    return made


def clsm():
    tower = CLSM(VOCABULARY.size, 3, 3, (2,))
    keras.utils.set_random_seed(1)
    tower.build()
    return tower


def test_a_word_of_one_s_own_texts_is_compared_at_the_convolution():
    """In the layout of S14, table 2: from the first text to each of the others."""
    tower = clsm()
    cosines = dict(contexts(tower, VOCABULARY, "bb", ["aa bb", "cc bb", "bb cc", "aa bb"]))
    # Equation 2: h = tanh(W_c l), l the rows of the window's words, one block of rows a place.
    kernel = keras.ops.convert_to_numpy(tower.hashing.kernel).astype(np.float64)

    def feature(*window):
        blocks = [
            kernel[list(VOCABULARY.ngram_ids(word))].sum(axis=0).reshape(3, 3)[place]
            for place, word in enumerate(window)
            if word
        ]
        return np.tanh(np.sum(blocks, axis=0))

    h = {"aa bb": feature("aa", "bb", ""), "cc bb": feature("cc", "bb", ""),
         "bb cc": feature("", "bb", "cc")}  # fmt: skip
    first = h["aa bb"] / np.linalg.norm(h["aa bb"])
    expected = {text: float(first @ one / np.linalg.norm(one)) for text, one in h.items()}
    assert cosines == pytest.approx(expected)
    assert list(cosines.values()) == sorted(cosines.values(), reverse=True)


def test_a_text_without_the_word_is_refused():
    with pytest.raises(UserError, match="'bb' is not among the words"):
        contexts(clsm(), VOCABULARY, "bb", ["aa bb", "aa cc"])


def test_the_nearest_word_shares_most_of_the_first_matrix():
    tower = one_cell_a_word(DSSM(VOCABULARY.size, (3,)))
    found = neighbours(tower, VOCABULARY, "aa", ["aa", "aabb", "cc"])
    assert [word for word, _ in found] == ["aabb", "cc"]
    # aabb has #aa and bb#, and no other known trigram: one of either word.
    assert [cosine for _, cosine in found] == pytest.approx([1 / np.sqrt(2), 0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = write_data(folder / "data", [*click_log(), Click("battlefield", "battlefield 3", 3)])
    for name in ("dssm", "clsm"):
        finished_run(folder / name, data, {"tower": {"name": name, **small(TOWERS[name])}})
    return folder


def test_the_words_nearest_to_one_are_printed_for_a_run_and_for_doc2vec(runs, tmp_path, capsys):
    """The sanity check of P16, supplement F, and the layout of W14, table 2."""
    pytest.importorskip("gensim", reason="needs the extra `baselines`")
    ranker = Doc2Vec(size=4, sample=0.0, epochs=2).fit([], ["red fox", "blue owl", "red owl"])
    ranker.save(tmp_path / "doc2vec")
    main(["--model", str(tmp_path / "doc2vec"), "--word", "Red"])
    words = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[2:]]
    assert words == [word for word, _ in ranker.most_similar("red")]
    main(["--model", str(runs / "dssm"), "--word", "battlefeld"])
    lines = capsys.readouterr().out.split("\n")
    assert lines[2].split()[1] == "battlefield"  # shares nine of its trigrams


def test_one_s_own_texts_are_compared_at_a_word(runs, capsys):
    texts = ["red fox story", "blue fox", "a green fox story"]
    main(["--model", str(runs / "clsm"), "--word", "fox", "--texts", *texts])
    ranker = SemanticRanker.load(runs / "clsm")
    expected = contexts(ranker.model.title_tower, ranker.vocabulary, "fox", texts)
    shown = capsys.readouterr().out.splitlines()
    assert "red **fox** story" in shown[0]
    assert [line.split()[-2] for line in shown[2:]] == [f"{cosine:.3f}" for _, cosine in expected]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--word", "ωψξ"], "has no letter trigram of 'ωψξ'"),
        (["--word", "fox", "--texts", "red fox", "a fox"], "DSSM has no vector for a word"),
    ],
)
def test_a_word_that_cannot_be_looked_at_is_a_sentence(runs, flags, said):
    with pytest.raises(SystemExit, match=said):
        main(["--model", str(runs / "dssm"), *flags])
