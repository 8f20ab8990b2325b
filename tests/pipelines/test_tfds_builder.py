"""The tfds dataset has the records of preprocess."""

from __future__ import annotations

import pytest

tfds = pytest.importorskip("tensorflow_datasets")

from dssm_tf.common.errors import UserError  # noqa: E402
from dssm_tf.common.tf_data_options import WITHOUT_AUTOTUNING  # noqa: E402
from dssm_tf.data.preprocessed import Preprocessed  # noqa: E402
from pipelines import tfds_builder  # noqa: E402
from tests.pipelines.written import Record  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # tfds warns about its own imports


def plain(value):
    """Converts arrays (also ragged ones) to lists and bytes to text, for comparisons."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    for name in ("to_list", "tolist"):
        if hasattr(value, name):
            value = getattr(value, name)()
    if isinstance(value, list):
        return [*map(plain, value)]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("sizes", [(60,), pytest.param((60, 120), marks=pytest.mark.slow)])
def test_the_examples_are_the_records_of_each_output_of_preprocess(run, topics, tmp_path, sizes):
    for rows in sizes:
        log = "".join(topics.splitlines(keepends=True)[: 1 + rows])
        written = run("--negatives", "3", "--validation_fraction", "0.3", log=log)
        dataset = tfds.load(
            "click_log",
            data_dir=str(tmp_path / "tfds"),
            builder_kwargs={"data": written.path},
            read_config=tfds.ReadConfig(options=WITHOUT_AUTOTUNING),
        )
        for split in ("train", "validation"):
            expected = list(tfds_builder.read_examples(Preprocessed(written.path), split))
            examples = [plain(example) for example in tfds.as_numpy(dataset[split])]
            assert len(expected) > rows / 6
            assert examples == expected
            assert written.records(split) == [
                Record(example["query"], tuple(example["titles"]), example["clicks"])
                for example in examples
            ]


def test_a_directory_without_pairs_is_refused(run, write, tmp_path):
    written = run("--corpus", str(write("corpus.tsv", "title\nred hat\n")))
    with pytest.raises(UserError, match="has no pairs of a query and a title"):
        tfds.load(
            "click_log",
            data_dir=str(tmp_path / "tfds"),
            builder_kwargs={"data": written.path},
        )
