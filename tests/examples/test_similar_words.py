"""Words in context and neighbours, on towers set by hand, and the script."""

import numpy as np
import pytest

from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.dssm import DSSM
from examples.similar_words import main, neighbours
from tests.clicks import Click, click_log, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.runs import finished_run

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(dict.fromkeys(n for word in WORDS for n in letter_ngrams(word)), FOLDED)


def test_the_nearest_word_shares_most_of_the_first_matrix():
    tower = DSSM(VOCABULARY.size, (3,))
    tower.build()
    kernel = np.zeros(tower.hashing.kernel.shape)
    for unit, word in enumerate(WORDS):
        kernel[list(VOCABULARY.ngram_ids(word)), unit] = 1.0
    tower.hashing.kernel.assign(kernel)
    found = neighbours(tower, VOCABULARY, "aa", ["aa", "aabb", "cc"])
    assert [word for word, _ in found] == ["aabb", "cc"]
    # aabb has #aa and bb#, and no other known trigram: one of either word.
    assert [cosine for _, cosine in found] == pytest.approx([1 / np.sqrt(2), 0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = write_data(folder / "data", [*click_log(), Click("battlefield", "battlefield 3", 3)])
    for name in ("dssm", "clsm"):
        tower = {"name": name, **small_sizes(TOWER_CONFIGS[name])}
        finished_run(folder / name, data, {"tower": tower})
    return folder


def test_the_words_nearest_to_one_are_printed_for_a_run_and_for_doc2vec(runs, tmp_path, capsys):
    """The sanity check of P16, supplement F, and the layout of W14, table 2."""
    pytest.importorskip("gensim", reason="needs the extra `baselines`")
    ranker = Doc2Vec(size=4, sample=0.0, epochs=2).fit([], ["red fox", "blue owl", "red owl"])
    ranker.save(tmp_path / "doc2vec")
    main(f"--model {tmp_path}/doc2vec --word Red".split())
    words = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[2:]]
    assert words == [word for word, _ in ranker.most_similar("red")]
    main(f"--model {runs}/dssm --word battlefeld".split())
    lines = capsys.readouterr().out.split("\n")
    assert lines[2].split()[1] == "battlefield"  # shares nine of its trigrams


def test_a_word_of_one_s_own_texts_is_compared_at_the_convolution(runs, capsys):
    """In the layout of S14, table 2: from the first text to each of the others."""
    texts = ["red fox story", "blue fox", "a green fox story", "the red fox story"]
    main(["--model", str(runs / "clsm"), "--word", "fox", "--texts", *texts])
    shown = capsys.readouterr().out.splitlines()
    assert "red **fox** story" in shown[0]
    # Equation 2: h = tanh(W_c l), l the rows of the window's words, one block of rows a place.
    ranker = SemanticRanker.load(runs / "clsm")
    kernel = ranker.model.title_tower.hashing.kernel.numpy().astype(np.float64)

    def feature(*window):
        sums = [kernel[list(ranker.vocabulary.ngram_ids(word))].sum(axis=0) for word in window]
        h = np.tanh(sum(rows.reshape(3, -1)[place] for place, rows in enumerate(sums)))
        return h / np.linalg.norm(h)

    first = feature("red", "fox", "story")
    cosines = {
        "the red **fox** story": 1.0,
        "blue **fox**": first @ feature("blue", "fox", ""),
        "a green **fox** story": first @ feature("green", "fox", "story"),
    }
    expected = sorted(cosines.items(), key=lambda one: -one[1])
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown[2:]]
    assert found == [[text, f"{cosine:.3f}"] for text, cosine in expected]


@pytest.mark.parametrize(
    ("run", "flags", "said"),
    [
        ("dssm", ["--word", "ωψξ"], "has no letter trigram of 'ωψξ'"),
        ("dssm", ["--word", "fox", "--texts", "red fox", "a fox"], "DSSM has no vector for a word"),
        ("clsm", ["--word", "fox", "--texts", "red fox", "an owl"], "'fox' is not among the words"),
    ],
)
def test_a_word_that_cannot_be_looked_at_is_a_sentence(runs, run, flags, said):
    with pytest.raises(SystemExit, match=said):
        main(["--model", str(runs / run), *flags])
