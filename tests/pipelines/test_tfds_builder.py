"""The tfds dataset holds the records that preprocess writes."""

from __future__ import annotations

import pytest

tfds = pytest.importorskip("tensorflow_datasets")

from dssm_tf.common.errors import UserError  # noqa: E402
from pipelines import preprocess, tfds_builder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # tfds warns about what it imports itself


def write_log(path, topics=30):
    lines = ["query\ttitle\tclicks"]
    for n in range(topics):
        lines += [f"Query {n}\tThe Title of {n}\t{n + 1}", f"query {n}\tanother {n % 7}!\t1"]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def load(tmp_path, **arguments):
    return tfds.load(
        "click_log",
        data_dir=str(tmp_path / "tfds"),
        builder_kwargs={"logs": tmp_path / "logs", **arguments},
    )


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
def logs(tmp_path):
    (tmp_path / "logs").mkdir()
    write_log(tmp_path / "logs" / "one.tsv")
    return tmp_path


def test_the_examples_of_a_directory_of_logs_are_the_records_of_preprocess(logs):
    dataset = load(logs, flags={"negatives": 3, "validation_fraction": 0.3})
    data = logs / "data"
    flags = ["--negatives", "3", "--validation_fraction", "0.3"]
    assert preprocess.run(["--input", str(logs / "logs"), "--output", str(data), *flags]) == 0
    for split in ("train", "validation"):
        expected = list(tfds_builder.read_examples(data, split))
        found = [plain(one) for one in tfds.as_numpy(dataset[split])]
        assert len(expected) > 5
        assert found == expected


def test_a_log_that_changed_is_prepared_again(logs):
    assert load(logs)["train"].cardinality() < 60
    write_log(logs / "logs" / "one.tsv", topics=100)
    assert load(logs)["train"].cardinality() > 100


def test_titles_of_a_corpus_are_known_too_and_prepared_again_when_it_changed(logs):
    corpus = logs / "corpus.tsv"

    def first_trigrams(word):
        """The vocabulary's numbers of the first trigrams of the queries."""
        rows = "".join(f"d{n}\t{word} {n}\n" for n in range(200))
        corpus.write_text(f"doc_id\ttitle\n{rows}", "utf-8")
        dataset = load(logs, flags={"corpus": [str(corpus)], "validation_fraction": 0})
        return [plain(one["query_ngrams"])[0][0] for one in tfds.as_numpy(dataset["train"])]

    # The trigrams of 200 titles come before most of the log's: "#qu" is one of them or is not.
    assert first_trigrams("quux") != first_trigrams("zzz")


def test_a_dataset_without_logs_says_how_to_name_them(tmp_path):
    with pytest.raises(UserError, match="builder_kwargs"):
        tfds.load("click_log", data_dir=str(tmp_path))
