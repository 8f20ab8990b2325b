"""Small files in the formats that publishers use."""

import json
from io import StringIO

import polars


def objects(*values):
    """JSON with one object per line."""
    return "".join(json.dumps(value) + "\n" for value in values)


def event(action, query_id, object_id, time):
    target = {"object_id": object_id, "object_id_field": "sku", "description": f"T{object_id}"}
    return {
        "action_name": action,
        "query_id": query_id,
        "client_id": "c1",
        "timestamp": time,
        "event_attributes": {"object": target, "position": {"ordinal": 2}, "session_id": "s1"},
    }


# With a fraction of one half, "red kettle" is held out and "blue rug" is not.
SOURCES = {
    "wands": {
        "product.csv": """\
product_id\tproduct_name\tproduct_class\tproduct_description
7\tred kettle 1 qt.\tKettles\t"a ""fine""\nkettle"
8\tblue rug\tRugs\t
""",
        "query.csv": "query_id\tquery\tquery_class\n0\tred kettle\t\n1\tblue rug\t\n",
        "label.csv": """\
id\tquery_id\tproduct_id\tlabel
0\t0\t7\tExact
1\t0\t8\tPartial
2\t1\t8\tExact
3\t1\t7\tIrrelevant
""",
    },
    "esci": {
        "shopping_queries_dataset_products.parquet": """\
product_id,product_title,product_description,product_locale
P1,Red Kettle,"",us
P2,Kettle\tLid,,us
P3,Blue Rug,"",us
P1,Tetera Roja,"",es
""",
        "shopping_queries_dataset_examples.parquet": """\
example_id,query,query_id,product_id,product_locale,esci_label,small_version,large_version,split
0,kettle,10,P1,us,E,1,1,train
1,kettle,10,P2,us,C,1,1,train
2,rug,11,P3,us,E,0,1,test
3,rug,11,P1,us,I,0,1,test
4,lid,12,P2,us,S,1,1,test
5,tetera,13,P1,es,E,1,1,train
""",
    },
    "homedepot": {
        "train.csv": """\
id,product_uid,product_title,search_term,relevance
2,100001,"Kettle, 5° tilt",red kettle,3
3,100002,Rug,red kettle,2.33
9,100002,Rug,blue rug,2.67
16,100001,"Kettle, 5° tilt",blue rug,1
""",
        "test.csv": "id,product_uid,product_title,search_term\n1,100009,Oak table,table\n",
    },
    "bestbuy": {
        "train.csv": """\
user,sku,category,query,click_time,query_time
u1,22,abcat,rug,2011-09-04 10:00:00.1,2011-09-04 09:59:00.1
u1,11,abcat,kettle,2011-09-01 10:00:00.1,2011-09-01 09:59:00.1
u1,11,abcat,ketle,2011-09-02 10:00:00.1,2011-09-02 09:59:00.1
u1,22,abcat,rug,2011-09-03 10:00:00.1,2011-09-03 09:59:00.1
u1,33,abcat,lost,2011-09-02 10:00:00.1,2011-09-02 09:59:00.1
u1,11,abcat,rug,2011-09-05 10:00:00.1,2011-09-05 09:59:00.1
""",
        "small_product_data.xml": """\
<?xml version="1.0" encoding="UTF-8"?>
<products>
  <product><sku>11</sku><name>Kettle &amp; Lid</name>
    <accessories><product><sku>99</sku><name>Lid</name></product></accessories></product>
  <product><name>Rug</name><sku>22</sku></product>
</products>
""",
    },
    "ubi": {
        "ubi_queries.ndjson": objects(
            {"query_id": "q1", "user_query": "kettle", "timestamp": "2024-05-01T10:00:00Z"},
            {"_index": "ubi_queries", "_source": {"query_id": "q2", "user_query": "rug"}},
        ),
        "ubi_events.ndjson": objects(
            {"index": {"_index": "ubi_events"}},  # the bulk interface has such lines
            event("click", "q1", "B", "2024-05-01T12:00:00Z"),
            event("impression", "q1", "A", "2024-05-01T10:00:01Z"),
            event("click", "q1", "A", "2024-05-01T10:00:05Z"),
            event("click", "q2", "A", "2024-05-01T11:00:00Z"),
            event("click", "unknown", "A", "2024-05-01T11:00:00Z"),
            event("scroll", "q1", "A", "2024-05-01T10:00:02Z"),
            event("click", "q1", "", "2024-05-01T10:00:03Z"),
        ),
    },
    "msmarco": {
        "collection.tsv": "0\tWater boils at 100.\n1\tRugs are woven.\n",
        "queries.train.tsv": "5\twhen does water boil\n6\tunjudged\n",
        "qrels.train.tsv": "5\t0\t0\t1\n5\t0\t1\t0\n99\t0\t1\t1\n",
        "queries.dev.small.tsv": "7\thow are rugs made\n",
        "qrels.dev.small.tsv": "7\t0\t1\t1\n",
    },
    "trec": {
        "topics.tsv": "051\tred kettle\n52\tblue rug\n",
        "corpus.tsv": "doc_id\ttitle\nFT-1\tKettles\nFT-2\tRug\n",
        "qrels.51-52": "51 0 FT-1 2\n52 0 FT-2 1\n\n52 0 FT-1 -1\n",
    },
}


def write_source(folder, name, **changed):
    """Writes the files of a source into a folder; `changed` replaces texts by file stem."""
    for file, text in SOURCES[name].items():
        path = folder / file
        text = changed.get(path.stem, text)
        if path.suffix == ".parquet":
            polars.read_csv(StringIO(text)).write_parquet(path)
        else:
            path.write_text(text, "latin-1" if name == "homedepot" else "utf-8")
