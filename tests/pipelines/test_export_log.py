"""The SQL of docs/export_log.md gives a log and a corpus that preprocess reads."""

from __future__ import annotations

import csv
import re
import sqlite3

SHOP = """
CREATE TABLE products (product_id text, name text, active boolean);
CREATE TABLE searches (search_id integer, session_id text, searched_at text, query text);
CREATE TABLE impressions (search_id integer, product_id text, position integer);
CREATE TABLE clicks (search_id integer, product_id text, clicked_at text, position integer);
INSERT INTO products VALUES ('p1', 'Halo: Reach', 1), ('p2', 'Controller, black', 1),
    ('p3', 'Old console', 0);
INSERT INTO searches VALUES (1, 's1', '2026-10-02 09:00:00', 'halo'),
    (2, 's1', '2026-10-02 09:05:00', 'controler'), (3, 's2', '2026-09-30 09:00:00', 'console');
INSERT INTO impressions VALUES (1, 'p2', 1), (1, 'p1', 2), (2, 'p2', 1), (3, 'p3', 1);
INSERT INTO clicks VALUES (1, 'p1', '2026-10-02 09:00:30', 2),
    (2, 'p2', '2026-10-02 09:05:30', 1), (3, 'p3', '2026-09-30 09:00:30', 1);
"""


def test_the_documented_queries_select_clicks_titles_and_impressions(checkout, run, tmp_path):
    page = (checkout / "docs" / "export_log.md").read_text("utf-8")
    clicks_sql, corpus_sql, impressions_sql = re.findall(r"```sql\n(.*?)```", page, re.S)
    shop = sqlite3.connect(":memory:")
    shop.executescript(SHOP)
    # The click of September 30 is too old; the title p3 is no longer in the catalog.
    assert sorted(shop.execute(clicks_sql)) == [
        ("controler", "Controller, black", "p2", "2026-10-02 09:05:30", "s1", 1),
        ("halo", "Halo: Reach", "p1", "2026-10-02 09:00:30", "s1", 2),
    ]
    assert sorted(shop.execute(corpus_sql)) == [("p1", "Halo: Reach"), ("p2", "Controller, black")]
    assert sorted(shop.execute(impressions_sql)) == [
        ("controler", "Controller, black", "p2", "2026-10-02 09:05:00", "s1", 1, 1, 1),
        ("halo", "Controller, black", "p2", "2026-10-02 09:00:00", "s1", 1, 1, 0),
        ("halo", "Halo: Reach", "p1", "2026-10-02 09:00:00", "s1", 2, 1, 1),
    ]
    for name, query in (("clicks", clicks_sql), ("corpus", corpus_sql)):
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            rows = shop.execute(query)
            csv.writer(file).writerow([column[0] for column in rows.description])
            csv.writer(file).writerows(rows)
    data = run(
        "--input", str(tmp_path / "clicks.csv"), "--corpus", str(tmp_path / "corpus.csv"),
        "--validation-fraction", "0",
    )  # fmt: skip
    clicked = {(record.query, record.titles[0]) for record in data.records()}
    assert clicked == {("controler", "Controller, black"), ("halo", "Halo: Reach")}
