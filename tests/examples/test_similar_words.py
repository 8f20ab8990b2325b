"""Neighbors of a word and words in context, on towers with known weights, and the script."""

import numpy as np
import pytest

from dssm_tf.baselines.doc2vec import Doc2Vec
from dssm_tf.model.load_run import load_run
from dssm_tf.model.semantic_ranker import SemanticRanker
from dssm_tf.text.letter_ngrams import letter_ngrams
from dssm_tf.text.rules import FOLDED
from dssm_tf.text.vocabulary import Vocabulary
from dssm_tf.towers.dssm import DSSM
from examples.similar_words import main, neighbors
from tests.clicks import Click, click_log, write_data
from tests.components import TOWER_CONFIGS, small_sizes
from tests.runs import finished_run

WORDS = ["aa", "bb", "cc"]
VOCABULARY = Vocabulary(
    dict.fromkeys(ngram for word in WORDS for ngram in letter_ngrams(word)), FOLDED
)


def test_the_nearest_word_has_the_most_similar_rows_in_the_first_matrix():
    tower = DSSM(VOCABULARY.size, (3,))
    tower.build()
    kernel = np.zeros(tower.hashing.kernel.shape)
    for unit, word in enumerate(WORDS):
        kernel[list(VOCABULARY.ngram_ids(word)), unit] = 1.0
    tower.hashing.kernel.assign(kernel)
    nearest = neighbors(tower, VOCABULARY, "aa", ["aa", "aabb", "cc"])
    assert [word for word, _ in nearest] == ["aabb", "cc"]
    # aabb has the known trigrams #aa and bb#: one of aa and one of bb.
    assert [cosine for _, cosine in nearest] == pytest.approx([1 / np.sqrt(2), 0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = write_data(folder / "data", [*click_log(), Click("battlefield", "battlefield 3", 3)])
    for name in ("dssm", "clsm"):
        tower = {"name": name, **small_sizes(TOWER_CONFIGS[name])}
        finished_run(folder / name, data, {"tower": tower})
    config = {"tower": {"name": "words"}, "score": {"name": "maxsim"}, "shared_towers": True}
    finished_run(folder / "maxsim", data, config)
    return folder


def test_the_script_prints_the_nearest_words_of_a_run_and_of_doc2vec(runs, tmp_path, capsys):
    # As in Palangi et al. 2016, supplement F, and Wu et al. 2014, table 2.
    pytest.importorskip("gensim", reason="needs the extra `baselines`")
    ranker = Doc2Vec(size=4, sample=0.0, epochs=2).fit([], ["red fox", "blue owl", "red owl"])
    ranker.save(tmp_path / "doc2vec")
    main(f"--model {tmp_path}/doc2vec --word Red".split())
    words = [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[2:]]
    assert words == [word for word, _ in ranker.most_similar("red")]
    main(f"--model {runs}/dssm --word battlefeld".split())
    lines = capsys.readouterr().out.split("\n")
    assert lines[2].split()[1] == "battlefield"  # shares nine of its trigrams


def test_the_nearest_words_of_a_maxsim_run_are_those_of_its_score(runs, capsys):
    main(f"--model {runs}/maxsim --word foxs".split())
    lines = capsys.readouterr().out.splitlines()[2:]
    ranker = load_run(runs / "maxsim")
    for line in lines:
        word, cosine = (cell.strip() for cell in line.split("|")[1:-1])
        # The similarity of a single query word, see the definition of the score.
        similarity = ranker.word_matches("foxs", word).query[0].similarity
        assert similarity == pytest.approx(max(0, float(cosine) - 0.2) / 0.8, abs=1e-3)
    assert lines[0].split()[1] == "fox"


def test_the_script_compares_a_word_in_several_texts_by_convolution_features(runs, capsys):
    # As in Shen et al. 2014, table 2: the first text against each of the others.
    texts = ["red fox story", "blue fox", "a green fox story", "the red fox story"]
    main(["--model", str(runs / "clsm"), "--word", "fox", "--texts", *texts])
    lines = capsys.readouterr().out.splitlines()
    assert "red **fox** story" in lines[0]
    # Equation 2: h = tanh(W_c l); each position in the window has its own block of columns.
    ranker = SemanticRanker.load(runs / "clsm")
    kernel = ranker.model.title_tower.hashing.kernel.numpy().astype(np.float64)

    def feature(*window):
        sums = [kernel[list(ranker.vocabulary.ngram_ids(word))].sum(axis=0) for word in window]
        h = np.tanh(sum(rows.reshape(3, -1)[position] for position, rows in enumerate(sums)))
        return h / np.linalg.norm(h)

    first = feature("red", "fox", "story")
    cosines = {
        "the red **fox** story": 1.0,
        "blue **fox**": first @ feature("blue", "fox", ""),
        "a green **fox** story": first @ feature("green", "fox", "story"),
    }
    expected = sorted(cosines.items(), key=lambda item: -item[1])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert rows == [[text, f"{cosine:.3f}"] for text, cosine in expected]


@pytest.mark.parametrize(
    ("run", "flags", "message"),
    [
        ("dssm", ["--word", "ωψξ"], "has no letter n-gram of 'ωψξ'"),
        ("dssm", ["--word", "fox", "--texts", "red fox", "a fox"], "DSSM has no vector for a word"),
        (
            "maxsim",
            ["--word", "fox", "--texts", "red fox", "a fox"],
            "Words has no vector for a wo",
        ),
        ("clsm", ["--word", "fox", "--texts", "red fox", "an owl"], "'fox' is not among the words"),
    ],
)
def test_a_word_without_a_vector_is_an_error_of_one_line(runs, run, flags, message):
    with pytest.raises(SystemExit, match=message):
        main(["--model", str(runs / run), *flags])
