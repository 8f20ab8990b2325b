"""Documents get the model's fields, line by line."""

from __future__ import annotations

import json

import pytest
from pytest import approx

from dssm_tf.common.errors import UserError
from dssm_tf.runtime.maxsim import TITLE
from dssm_tf.runtime.search_engine_client import SearchEngineClient
from dssm_tf.runtime.search_engine_documents import DocumentWriter
from tests.runtime.search_engine_exports import write_export


@pytest.fixture(scope="module")
def client(tmp_path_factory) -> SearchEngineClient:
    return SearchEngineClient(write_export(tmp_path_factory.mktemp("export") / "1"))


@pytest.fixture
def writer(client) -> DocumentWriter:
    return DocumentWriter(client, ("title",))


def documents_of(lines: list[str], writer: DocumentWriter, **options) -> list[dict]:
    """The documents of JSON lines, with the fields that a writer adds."""
    written = writer.documents([line.encode() for line in lines], "docs.jsonl", **options)
    return [json.loads(line) for line in written]


def test_fields_are_words_pairs_the_inverse_weight_and_the_prior(writer, client):
    fields = writer.fields("Red shoe, hat RED")
    assert fields["words"] == ["red", "shoe", "hat", "red shoe"]
    model = client.ranker.maxsim
    weights = model.words(["red", "shoe", "hat"]).weights[:, TITLE].sum()
    assert fields["norm"] == approx(1 / (weights + model.pair_weights(["red shoe"])[0, TITLE]))
    assert fields["version"] == client.manifest.version
    # The smallest log-prior, that of titles without clicks, becomes 0.
    assert fields["prior"] == 0.0
    clicked = client.ranker.weighted_prior(["shoe box"])[0]
    assert writer.fields("shoe box")["prior"] == approx(clicked - client.manifest.prior_offset)


def test_a_title_without_words_has_no_weight(writer):
    assert writer.fields(" ?! ")["words"] == []
    assert writer.fields("")["norm"] == 0.0


def test_other_fields_stay_and_earlier_fields_of_the_model_are_replaced(writer):
    line = (
        '{"title": "red shoe", "price": 1.10, "tags": [null], "dssm": {"old": 1}, "é": "\\ud800"}'
    )
    (document,) = documents_of([line], writer)
    assert document.pop("dssm") == writer.fields("red shoe")
    assert document == {"title": "red shoe", "price": 1.1, "tags": [None], "é": "\ud800"}


def test_blank_lines_are_skipped(writer):
    assert len(documents_of(["", '{"title": "red"}', "  \n", '{"title": "shoe"}'], writer)) == 2


def test_a_title_is_joined_from_several_fields_nested_fields_and_lists(client):
    writer = DocumentWriter(client, ("name", "product.brand", "tags"))
    document = {"name": "red shoe", "product": {"brand": "acme"}, "tags": ["new", "box"]}
    assert writer.with_fields(document)["dssm"] == writer.fields("red shoe␟acme␟new box")
    document = {"name": "red shoe", "product": None}
    assert writer.with_fields(document)["dssm"] == writer.fields("red shoe")
    document = {"product.brand": "acme", "name": None}
    assert writer.with_fields(document)["dssm"] == writer.fields("␟acme")


def test_documents_become_a_bulk_request_with_their_ids(writer):
    lines = ['{"sku": 7, "title": "red"}', '{"sku": "a/b", "title": "shoe"}']
    objects = documents_of(lines, writer, id_field="sku")
    assert objects[::2] == [{"index": {"_id": "7"}}, {"index": {"_id": "a/b"}}]
    assert [document["dssm"]["words"] for document in objects[1::2]] == [["red"], ["shoe"]]


def test_a_bulk_request_gets_fields_only_where_a_title_is_written(writer):
    lines = [
        '{"index": {"_index": "shop", "_id": "1"}}', '{"title": "red"}',
        '{"delete": {"_id": "2"}}',
        '{"create": {}}', '{"title": "shoe"}',
        '{"update": {"_id": "3"}}', '{"doc": {"title": "box"}, "doc_as_upsert": true}',
        '{"update": {"_id": "4"}}', '{"doc": {"price": 3}}',
        '{"update": {"_id": "5"}}', '{"script": "x", "upsert": {"title": "lid"}}',
    ]  # fmt: skip
    written = [json.loads(line) for line in writer.bulk(map(str.encode, lines), "bulk")]
    originals = [json.loads(line) for line in lines]
    unchanged = (0, 2, 3, 5, 7, 8, 9)  # the actions, and the update without a title
    assert [written[i] for i in unchanged] == [originals[i] for i in unchanged]
    assert written[1]["dssm"]["words"] == ["red"]
    assert written[4]["dssm"]["words"] == ["shoe"]
    assert written[6]["doc"]["dssm"]["words"] == ["box"]
    assert written[6]["doc_as_upsert"] is True
    assert written[10]["upsert"]["dssm"]["words"] == ["lid"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"expected a JSON object \(Expecting"),
        ("[1]", r"expected a JSON object, received \[1\]"),
        ('{"title": NaN}', r"expected a JSON object \(NaN is not JSON\)"),
        ("[" * 100_000, "nested too deeply"),
        ('{"name": "red"}', "the document has no title"),
        ('{"title": null}', "the document has no title"),
        ('{"title": 3}', "title is 3; expected text, or a list of texts"),
        ('{"title": ["red", 3]}', r"title is \['red', 3\]; expected text"),
    ],
)
def test_an_unusable_line_is_named(writer, line, message):
    with pytest.raises(UserError, match=rf"^docs.jsonl:2: .*{message}") as error:
        documents_of(['{"title": "red"}', line], writer)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("; nothing was written.")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"title": "a", "title": "b"}', "title"),
        ('{"title": "a", "t\\u0069tle": "a"}', "title"),
        ('{"title": "a", "price": 1, "price": 1}', "price"),
        ('{"title": "a", "offers": [{"price": 1, "price": 2}]}', "price"),
    ],
)
def test_a_document_with_a_repeated_key_is_refused(writer, line, key):
    message = f"docs.jsonl:2: .*the key '{key}' is repeated; give it once"
    with pytest.raises(UserError, match=message):
        documents_of(['{"title": "red"}', line], writer)
    with pytest.raises(UserError, match=message.replace("docs.jsonl", "bulk")):
        list(writer.bulk([b'{"index": {}}', line.encode()], "bulk"))


@pytest.mark.parametrize("number", ["1e400", "-1e400", "2e308", "9" * 400 + ".5"])
def test_a_number_that_would_become_infinity_is_refused(writer, number):
    line = f'{{"title": "a", "sales": [{number}]}}'
    with pytest.raises(UserError, match=r"docs.jsonl:1: .*is too large; expected .* 1\.8e308"):
        documents_of([line], writer)


@pytest.mark.parametrize("id", ["null", '""', "1.5", "true", "[]"])
def test_an_unusable_id_is_named(writer, id):
    with pytest.raises(UserError, match=r"docs.jsonl:1: sku is .*; expected an id"):
        documents_of([f'{{"sku": {id}, "title": "red"}}'], writer, id_field="sku")


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        (['{"title": "red"}'], 1, "expected a bulk action, one of index, create, update, delete"),
        (["{}"], 1, "expected a bulk action"),
        (['{"index": 1}'], 1, "expected a bulk action"),
        (['{"index": {}}'], 1, "the document of the last index is missing"),
        (['{"index": {}}', "", '{"name": 1}'], 3, "the document has no title"),
    ],
)
def test_an_unusable_line_of_a_bulk_request_is_named(writer, lines, number, message):
    with pytest.raises(UserError, match=rf"^bulk:{number}: {message}"):
        list(writer.bulk(map(str.encode, lines), "bulk"))


def test_an_update_of_a_part_of_the_title_is_refused(client):
    writer = DocumentWriter(client, ("title", "brand"))
    lines = [b'{"update": {}}', b'{"doc": {"brand": "acme"}}']
    with pytest.raises(UserError, match="bulk:2: the update has only some of the fields title, br"):
        list(writer.bulk(lines, "bulk"))


def test_numbers_in_documents_keep_their_values(writer):
    (document,) = documents_of(
        ['{"title": "red", "n": [1e300, 12345678901234567890, 0.1]}'], writer
    )
    assert document["n"] == [1e300, 12345678901234567890, 0.1]
