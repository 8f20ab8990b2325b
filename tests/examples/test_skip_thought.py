"""`examples/skip_thought.py`: trains a ranker on running text."""

import numpy as np
import pytest

from dssm_tf.systems import BASELINES
from examples.skip_thought import main, passages


def test_passages_end_at_blank_lines_and_repeat_each_sentence():
    result = passages("A cat sat. It was 3 p.m. exactly!\nWhy?\n\nred . blue .\n")
    assert [passage[::2] for passage in result] == [
        ["A cat sat.", "It was 3 p.m. exactly!", "Why?"],
        ["red .", "blue ."],
    ]
    assert all(passage[::2] == passage[1::2] for passage in result)


@pytest.mark.slow
def test_a_trained_model_ranks_the_sentence_with_the_query_s_words_first(tmp_path):
    sentences = ["Red kettle boils.", "Blue rug lies.", "Oak table stands.", "Tall lamp shines."]
    (tmp_path / "text.txt").write_text("\n\n".join([" ".join(sentences * 4)] * 8))
    main([f"--text={tmp_path}/text.txt", f"--out={tmp_path}/model", "--units=16", "--max-steps=40"])
    model = BASELINES["skip_thought"].load(tmp_path / "model")
    scores = model.score_matrix(["kettle red", "the rug", "table oak", "lamp"], sentences)
    assert (np.argmax(scores, axis=1) == range(4)).all()
