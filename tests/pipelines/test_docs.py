"""The code in docs/data.md that reads the output of preprocess works."""

from __future__ import annotations

from collections import Counter


def test_the_documented_lines_print_every_clicked_title_with_its_clicks(
    run, topics, checkout, tmp_path, monkeypatch, capsys
):
    data = run("--shards", "2", log=topics)
    text = (checkout / "docs" / "data.md").read_text("utf-8")
    code = text.split("run by tests/pipelines/test_docs.py -->\n```python\n")[1].split("```")[0]
    capsys.readouterr()
    exec(code.replace("DATA/", f"{data.path}/"), {})
    printed = Counter(capsys.readouterr().out.splitlines())
    expected = Counter(f"{record.titles[0]} {record.clicks}" for record in data.records())
    assert printed == expected
