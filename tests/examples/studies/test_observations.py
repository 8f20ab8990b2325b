"""`examples.studies.observations` on a tiny log."""

import pytest

from examples.studies import observations, observed_runs
from examples.studies.observations import main
from tests.clicks import ANIMALS, COLORS
from tests.examples.studies.conftest import table_rows, write_rows


@pytest.mark.slow
def test_every_quantity_of_every_system_is_written_and_printed(shop, tmp_path, capsys, monkeypatch):
    for name, value in (("TOPICS", 3), ("_DIMENSIONS", 5), ("_EPOCHS", 1)):
        monkeypatch.setattr(observed_runs, name, value)
    monkeypatch.setattr(observations, "TEXTS_PER_LENGTH", 6)
    data, out = tmp_path / "data", tmp_path / "out"
    pairs = [
        (f"{query}{color} {animal}", f"the {color} {animal} of the woods")
        for color in COLORS
        for animal in ANIMALS
        for query in ("", "story of the ")
    ]
    rows = [(*pair, i + 1) for i, pair in enumerate(pairs)]
    write_rows(data / "bestbuy" / "clicks.tsv", "query title timestamp", rows)
    flags = ["--data", str(data), "--out", str(out), "--sets", "bestbuy"]
    flags += ["--systems", "lstm,dssm", "--seeds", "1"]
    main(flags)
    output = capsys.readouterr().out
    assert "1a. Loss of the cosine without a word" in output
    systems = {row[1] for row in table_rows(output) if row[0] == "bestbuy"}
    assert systems == {
        "lstm", "lstm untrained", "lstm with i(t) constant", "lstm with f(t) constant", "dssm"
    }  # fmt: skip
    table = (out / "observations.tsv").read_text("utf-8").splitlines()
    values = {tuple(line.split("\t")[:4]): line.split("\t")[4] for line in table}
    # A bag of words ignores order, so the first of two words has half of the influence.
    influence = float(values["bestbuy", "dssm", "0", "first word of 2: influence"])
    assert influence == pytest.approx(0.5, abs=1e-3)
    # A constant input gate has the same value at stop words and at other words.
    variant = ("bestbuy", "lstm with i(t) constant", "0")
    stop, other = (
        float(values[(*variant, f"input gate: {words} words")]) for words in ("stop", "other")
    )
    assert stop == pytest.approx(other, abs=1e-4)
    main(flags)  # resumes: nothing is trained or measured again
    assert (out / "observations.tsv").read_text("utf-8").splitlines() == table
