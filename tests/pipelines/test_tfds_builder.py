"""The tfds dataset holds the records that preprocess writes."""

from __future__ import annotations

import pytest

tfds = pytest.importorskip("tensorflow_datasets")

from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING  # noqa: E402
from dssm_tf.data.preprocessed import Preprocessed  # noqa: E402
from pipelines import tfds_builder  # noqa: E402
from tests.pipelines.written import Record  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # tfds warns about what it imports itself


def plain(value):
    """Arrays, ragged ones too, as lists, and bytes as text, so that examples compare."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    for name in ("to_list", "tolist"):
        if hasattr(value, name):
            value = getattr(value, name)()
    if isinstance(value, list):
        return [*map(plain, value)]
    return value.decode() if isinstance(value, bytes) else value


def test_the_examples_are_the_records_of_each_output_of_preprocess(run, topics, tmp_path):
    for rows in (60, 120):
        log = "".join(topics.splitlines(keepends=True)[: 1 + rows])
        written = run(log, "--negatives", "3", "--validation_fraction", "0.3")
        dataset = tfds.load(
            "click_log",
            data_dir=str(tmp_path / "tfds"),
            builder_kwargs={"data": written.path},
            read_config=tfds.ReadConfig(options=WITHOUT_AUTOTUNING),
        )
        for split in ("train", "validation"):
            expected = list(tfds_builder.read_examples(Preprocessed(written.path), split))
            found = [plain(one) for one in tfds.as_numpy(dataset[split])]
            assert len(expected) > rows / 6
            assert found == expected
            assert written.records(split) == [
                Record(one["query"], tuple(one["titles"]), one["clicks"]) for one in found
            ]
