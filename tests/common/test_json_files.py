import os

import pytest

from dssm_tf.common.arrays import map_array
from dssm_tf.common.errors import UserError
from dssm_tf.common.json_files import read_json


def test_json_is_read_or_rejected_with_one_line(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(UserError, match=r"a\.json does not exist\. Fix it\."):
        read_json(path, "Fix it.")
    path.write_text('{"a": [1, null]}')
    assert read_json(path, "Fix it.") == {"a": [1, None]}
    for content in (b"", b"{", b"\xff\xfe{", b"[" * 1_000_000, b"9" * 10_000, b"\x00" * 8):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"a\.json is damaged, .* Fix it\."):
            read_json(path, "Fix it.")


def test_a_pipe_is_refused_before_it_is_opened(tmp_path):
    path = tmp_path / "a.json"
    os.mkfifo(path)
    for read in (read_json, map_array):
        with pytest.raises(UserError, match=r"a\.json is not a regular file\. Fix it\."):
            read(path, "Fix it.")
