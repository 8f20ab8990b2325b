"""The tfds dataset holds the records that preprocess writes."""

from __future__ import annotations

import pytest

tfds = pytest.importorskip("tensorflow_datasets")

from dssm_tf.common.errors import UserError  # noqa: E402
from dssm_tf.data.preprocessed import Preprocessed  # noqa: E402
from pipelines import preprocess, tfds_builder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # tfds warns about what it imports itself


def write_log(path, topics=30):
    lines = ["query\ttitle\tclicks"]
    for n in range(topics):
        lines += [f"Query {n}\tThe Title of {n}\t{n + 1}", f"query {n}\tanother {n % 7}!\t1"]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def load(folder, data):
    return tfds.load("click_log", data_dir=str(folder / "tfds"), builder_kwargs={"data": data})


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


@pytest.fixture
def preprocessed(tmp_path):
    """Preprocesses a log of so many topics."""

    def preprocessed(name, topics=30):
        write_log(tmp_path / "log.tsv", topics)
        flags = ["--negatives", "3", "--validation_fraction", "0.3"]
        places = ["--input", str(tmp_path / "log.tsv"), "--output", str(tmp_path / name)]
        assert preprocess.run([*places, *flags]) == 0
        return tmp_path / name

    return preprocessed


def test_the_examples_are_the_records_of_preprocess(preprocessed, tmp_path):
    data = preprocessed("data")
    dataset = load(tmp_path, data)
    for split in ("train", "validation"):
        expected = list(tfds_builder.read_examples(Preprocessed(data), split))
        found = [plain(one) for one in tfds.as_numpy(dataset[split])]
        assert len(expected) > 5
        assert found == expected


def test_another_output_is_another_dataset(preprocessed, tmp_path):
    assert load(tmp_path, preprocessed("one"))["train"].cardinality() < 60
    assert load(tmp_path, preprocessed("two", 100))["train"].cardinality() > 100


def test_a_dataset_without_data_says_how_to_name_it(tmp_path):
    with pytest.raises(UserError, match="builder_kwargs"):
        tfds.load("click_log", data_dir=str(tmp_path))
