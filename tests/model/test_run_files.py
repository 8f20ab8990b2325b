"""The numbers of a run's `ranking.json` are checked when it is read."""

import json

import pytest

from dssm_tf.common.errors import UserError
from dssm_tf.model.run_files import read_ranking


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prior_weight": -1}, "prior_weight is -1; expected a number from 0 to"),
        ({"prior_weight": 1e300}, "prior_weight is 1e\\+300; expected"),
        ({"prior_weight": "0.1"}, "prior_weight is '0.1'; expected"),
        ({"prior_weight": None}, "prior_weight is None; expected"),
        ({"prior_weight": True}, "prior_weight is True; expected"),
        ({"validation": {"cutoff": 1e39}}, "cutoff is 1e\\+39; expected"),
        ({"validation": []}, "expected a JSON object in which validation is an object"),
    ],
)
def test_a_number_out_of_its_range_is_a_one_line_error(tmp_path, changes, message):
    path = tmp_path / "ranking.json"
    path.write_text(json.dumps({"prior_weight": 0.1, "validation": {}} | changes))
    with pytest.raises(UserError, match=message) as error:
        read_ranking(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["[]", "3", '"text"'])
def test_a_file_that_is_no_object_is_a_one_line_error(tmp_path, content):
    (tmp_path / "ranking.json").write_text(content)
    with pytest.raises(UserError, match="expected a JSON object"):
        read_ranking(tmp_path / "ranking.json")


def test_a_file_that_is_too_large_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "ranking.json"
    path.write_text('{"prior_weight": [' + "0," * 50_000 + "0]}")
    with pytest.raises(UserError, match=r"has 100,0\d\d bytes; expected at most 65,536\. Copy the"):
        read_ranking(path)


def test_a_nested_value_is_abbreviated(tmp_path):
    (tmp_path / "ranking.json").write_text('{"prior_weight": ' + "[" * 500 + "]" * 500 + "}")
    with pytest.raises(UserError, match=r"prior_weight is \[+\.\.\.\]+; expected a number"):
        read_ranking(tmp_path / "ranking.json")
