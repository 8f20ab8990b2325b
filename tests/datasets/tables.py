"""Small files in the formats that publishers use."""

from __future__ import annotations

import csv
import json

import pyarrow
from pyarrow import parquet

# Decided by the text alone: with a share of one half, the first is held out.
HELD_OUT, NOT_HELD_OUT = "red kettle", "blue rug"


def pairs(clicks):
    return [(row["query"], row["title"], row["doc_id"]) for row in clicks]


def write_table(path, rows, delimiter=",", encoding="utf-8"):
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


def write_lines(path, *rows):
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), "utf-8")


def write_objects(path, *objects):
    path.write_text("".join(json.dumps(each) + "\n" for each in objects), "utf-8")


def write_wands(source, label="Partial"):
    write_table(
        source / "product.csv",
        [
            ["product_id", "product_name", "product_class", "product_description"],
            ["7", "red kettle 1 qt.", "Kettles", 'a "fine"\nkettle'],
            ["8", "blue rug", "Rugs", ""],
        ],
        "\t",
    )
    rows = [["query_id", "query", "query_class"], [0, HELD_OUT, ""], [1, NOT_HELD_OUT, ""]]
    write_table(source / "query.csv", rows, "\t")
    labels = [["id", "query_id", "product_id", "label"], [0, 0, 7, "Exact"], [1, 0, 8, label]]
    labels += [[2, 1, 8, "Exact"], [3, 1, 7, "Irrelevant"]]
    write_table(source / "label.csv", labels, "\t")


def write_esci(source):
    products = {
        "product_id": ["P1", "P2", "P3", "P1"],
        "product_title": ["Red Kettle", "Kettle\tLid", "Blue Rug", "Tetera Roja"],
        "product_description": ["", None, "", ""],
        "product_locale": ["us", "us", "us", "es"],
    }
    examples = [
        # example_id, query, query_id, product_id, locale, label, small, large, split
        (0, "kettle", 10, "P1", "us", "E", 1, 1, "train"),
        (1, "kettle", 10, "P2", "us", "C", 1, 1, "train"),
        (2, "rug", 11, "P3", "us", "E", 0, 1, "test"),
        (3, "rug", 11, "P1", "us", "I", 0, 1, "test"),
        (4, "lid", 12, "P2", "us", "S", 1, 1, "test"),
        (5, "tetera", 13, "P1", "es", "E", 1, 1, "train"),
    ]
    names = ["example_id", "query", "query_id", "product_id", "product_locale", "esci_label"]
    names += ["small_version", "large_version", "split"]
    columns = dict(zip(names, map(list, zip(*examples, strict=True)), strict=True))
    for name, table in (("products", products), ("examples", columns)):
        path = source / f"shopping_queries_dataset_{name}.parquet"
        parquet.write_table(pyarrow.table(table), path)


def write_home_depot(source, relevance="2.33"):
    header = ["id", "product_uid", "product_title", "search_term", "relevance"]
    rows = [
        [2, 100001, "Kettle, 5° tilt", "red kettle", "3"],
        [3, 100002, "Rug", "red kettle", relevance],
        [9, 100002, "Rug", "blue rug", "2.67"],
        [16, 100001, "Kettle, 5° tilt", "blue rug", "1"],
    ]
    write_table(source / "train.csv", [header, *rows], encoding="latin-1")
    write_table(
        source / "test.csv", [header[:4], [1, 100009, "Oak table", "table"]], encoding="latin-1"
    )


LOG = [["user", "sku", "category", "query", "click_time", "query_time"]] + [
    ["u1", sku, "abcat", query, f"2011-09-0{day} 10:00:00.1", f"2011-09-0{day} 09:59:00.1"]
    for sku, query, day in [("22", "rug", 4), ("11", "kettle", 1), ("11", "ketle", 2),
                            ("22", "rug", 3), ("33", "lost", 2), ("11", "rug", 5)]
]  # fmt: skip
XML = """<?xml version="1.0" encoding="UTF-8"?>
<products>
  <product><sku>11</sku><name>Kettle &amp; Lid</name>
    <accessories><product><sku>99</sku><name>Lid</name></product></accessories></product>
  <product><name>Rug</name><sku>22</sku></product>
</products>
"""


def write_best_buy(source, xml=XML):
    write_table(source / "train.csv", LOG)
    (source / "small_product_data.xml").write_text(xml, "utf-8")


def event(action, query_id, object_id, time):
    target = {"object_id": object_id, "object_id_field": "sku", "description": f"T{object_id}"}
    return {
        "action_name": action,
        "query_id": query_id,
        "client_id": "c1",
        "timestamp": time,
        "event_attributes": {"object": target, "position": {"ordinal": 2}, "session_id": "s1"},
    }


def write_ubi(source):
    write_objects(
        source / "ubi_queries.ndjson",
        {"query_id": "q1", "user_query": "kettle", "timestamp": "2024-05-01T10:00:00Z"},
        {"_index": "ubi_queries", "_source": {"query_id": "q2", "user_query": "rug"}},
    )
    write_objects(
        source / "ubi_events.ndjson",
        {"index": {"_index": "ubi_events"}},  # the bulk interface has such lines
        event("click", "q1", "B", "2024-05-01T12:00:00Z"),
        event("impression", "q1", "A", "2024-05-01T10:00:01Z"),
        event("click", "q1", "A", "2024-05-01T10:00:05Z"),
        event("click", "q2", "A", "2024-05-01T11:00:00Z"),
        event("click", "unknown", "A", "2024-05-01T11:00:00Z"),
        event("scroll", "q1", "A", "2024-05-01T10:00:02Z"),
        event("click", "q1", "", "2024-05-01T10:00:03Z"),
    )


def write_msmarco(source):
    write_lines(source / "collection.tsv", (0, "Water boils at 100."), (1, "Rugs are woven."))
    write_lines(source / "queries.train.tsv", (5, "when does water boil"), (6, "unjudged"))
    write_lines(source / "qrels.train.tsv", (5, 0, 0, 1), (99, 0, 1, 1))
    write_lines(source / "queries.dev.small.tsv", (7, "how are rugs made"))
    write_lines(source / "qrels.dev.small.tsv", (7, 0, 1, 1))


def write_trec(source):
    write_lines(source / "topics.tsv", ("051", "red kettle"), ("52", "blue rug"))
    write_lines(source / "corpus.tsv", ("doc_id", "title"), ("FT-1", "Kettles"), ("FT-2", "Rug"))
    (source / "qrels.51-52").write_text("51 0 FT-1 2\n52 0 FT-2 1\n\n52 0 FT-1 -1\n", "utf-8")


WRITERS = {
    "esci": write_esci,
    "wands": write_wands,
    "homedepot": write_home_depot,
    "bestbuy": write_best_buy,
    "ubi": write_ubi,
    "msmarco": write_msmarco,
    "trec": write_trec,
}
