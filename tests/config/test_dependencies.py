"""Settings that need another setting, in another section, are refused without it."""

from __future__ import annotations

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.config import parse_config
from dssm_tf.config.load import find_config, load_config

TOWER = {"tower": {"name": "dssm"}}


def test_letters_only_needs_whole_words():
    letters_only = TOWER | {"training": {"letters_only": 0.3}}
    assert parse_config(letters_only | {"whole_words": True}).training.letters_only == 0.3
    assert parse_config(TOWER | {"training": {"letters_only": 0}}).whole_words is False
    with pytest.raises(UserError) as caught:
        parse_config(letters_only)
    assert str(caught.value) == (
        "configuration: training.letters_only: 0.3 needs whole_words: true; received false. "
        "Without whole words, all words are read by their letter n-grams only."
    )


def test_an_override_without_whole_words_names_what_needs_them():
    with pytest.raises(UserError, match=r"^--set whole_words=false: start: vectors and spelling"):
        load_config(find_config("maxsim"), ["whole_words=false"])
    overrides = ["whole_words=false", "start.spelling=false"]
    with pytest.raises(UserError, match=r"^--set .*: training\.letters_only: 0\.3 needs whole_wo"):
        load_config(find_config("maxsim"), overrides)
    config = load_config(find_config("maxsim"), [*overrides, "training.letters_only=0"])
    assert config.whole_words is False
