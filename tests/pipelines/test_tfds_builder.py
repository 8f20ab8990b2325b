"""The tfds dataset holds the records that preprocess writes."""

from __future__ import annotations

import pytest

tfds = pytest.importorskip("tensorflow_datasets")

from dssm_tf.data.preprocessed import Preprocessed  # noqa: E402
from pipelines import preprocess, tfds_builder  # noqa: E402

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


@pytest.fixture
def data(tmp_path):
    """What preprocess writes of a log of so many topics."""

    def data(topics):
        lines = ["query\ttitle\tclicks"]
        for n in range(topics):
            lines += [f"Query {n}\tThe Title of {n}\t{n + 1}", f"query {n}\tanother {n % 7}!\t1"]
        log, output = tmp_path / "log.tsv", tmp_path / f"{topics}"
        log.write_text("\n".join(lines) + "\n", "utf-8")
        flags = ["--negatives", "3", "--validation_fraction", "0.3"]
        assert preprocess.run(["--input", str(log), "--output", str(output), *flags]) == 0
        return output

    return data


def test_the_examples_are_the_records_of_each_output_of_preprocess(data, tmp_path):
    for topics in (30, 100):
        path = data(topics)
        dataset = tfds.load(
            "click_log", data_dir=str(tmp_path / "tfds"), builder_kwargs={"data": path}
        )
        for split in ("train", "validation"):
            expected = list(tfds_builder.read_examples(Preprocessed(path), split))
            found = [plain(one) for one in tfds.as_numpy(dataset[split])]
            assert len(expected) > topics / 6
            assert found == expected
