"""Small files in the formats that publishers use."""

from __future__ import annotations

import csv
import json

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
