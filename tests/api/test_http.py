"""What HTTP gives beside answers: versions of paths, pages, HEAD, ETags, compression, documentation."""

import gzip
import hashlib
import json
import re
import tomllib
from importlib.resources import files
from typing import Any

import pytest
import yaml
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.api.middleware.representation import ENCODERS, chosen_encoding
from service.api.routes.documents import ASSETS
from tests.api.plan_bodies import GEMMA, GEMMA_QUERY

GETS = [
    "/gpus",
    "/gpus/h100-sxm-80gb",
    "/models",
    "/models/google/gemma-4-31B-it",
    "/engines",
    "/problems",
    "/problems/unknown-gpu",
]


@pytest.mark.parametrize("path", GETS)
def test_a_path_answers_alike_with_and_without_its_version(path: str, client: TestClient) -> None:
    assert client.get(f"/v1{path}").content == client.get(path).content


def test_a_plan_does_too(client: TestClient) -> None:
    answer = client.post("/v1/plan", json=GEMMA).content
    assert answer == client.post("/plan", json=GEMMA).content
    assert answer == client.get("/v1/plan", params=GEMMA_QUERY).content


def test_only_versioned_paths_are_documented(app: FastAPI) -> None:
    paths = app.openapi()["paths"]
    assert [path for path in paths if not path.startswith("/v1/")] == [
        "/livez",
        "/readyz",
        "/health",
        "/metrics",
    ]


@pytest.mark.parametrize(
    "path", [*GETS, "/livez", "/readyz", "/metrics", "/docs", "/openapi.yaml", "/openapi.json"]
)
def test_head_answers_as_get_does_without_a_body(path: str, client: TestClient) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    if path != "/metrics":  # each request counts itself
        volatile = {"x-request-id"}
        assert {**head.headers, "x-request-id": ""}.items() == {**get.headers, "x-request-id": ""}.items(), (
            volatile
        )


def test_head_of_what_does_not_exist(client: TestClient) -> None:
    reply = client.head("/v1/gpus/none")
    assert (reply.status_code, reply.content) == (404, b"")
    assert client.head("/v1/explain").status_code == 405


@pytest.mark.parametrize(
    "path", [*GETS, f"/plan?model={GEMMA['model']}&gpu=h100-sxm-80gb&kv_cache_dtype=auto"]
)
def test_an_unchanged_answer_is_not_sent_again(path: str, client: TestClient) -> None:
    first = client.get(path)
    tag = first.headers["etag"]
    for given in (tag, f'"other", {tag}', "*", tag.removeprefix("W/")):
        again = client.get(path, headers={"If-None-Match": given})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"].removeprefix("W/") == tag.removeprefix("W/")
    assert client.get(path, headers={"If-None-Match": '"other"'}).content == first.content


def test_equal_answers_have_one_tag_whatever_their_encoding(client: TestClient) -> None:
    tags = {
        client.get("/v1/gpus", headers={"Accept-Encoding": encoding}).headers["etag"].removeprefix("W/")
        for encoding in ("identity", *ENCODERS)
    }
    assert len(tags) == 1


def test_what_changes_all_the_time_is_not_stored(client: TestClient) -> None:
    for path in ("/livez", "/readyz", "/health", "/metrics", "/v1/gpus/none"):
        assert client.get(path).headers["cache-control"] == "no-store"
    assert "no-cache" in client.get("/v1/gpus").headers["cache-control"]
    private = client.get("/v1/models/google/gemma-4-31B-it", headers={"X-Hub-Token": "hf_" + "x" * 34})
    assert private.headers["cache-control"] == "private, no-cache"


def test_a_long_answer_is_compressed(client: TestClient) -> None:
    plain = client.get("/v1/gpus", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with client.stream("GET", "/v1/gpus", headers={"Accept-Encoding": "gzip"}) as reply:
        sent = b"".join(reply.iter_raw())
    assert reply.headers["content-encoding"] == "gzip"
    assert int(reply.headers["content-length"]) == len(sent) < len(plain.content) / 5
    assert gzip.decompress(sent) == plain.content
    assert "Accept-Encoding" in reply.headers["vary"]


def test_a_long_answer_is_compressed_with_zstandard(client: TestClient) -> None:
    zstd = pytest.importorskip("backports.zstd", reason="the package backports.zstd is not installed")
    plain = client.get("/v1/gpus", headers={"Accept-Encoding": "identity"}).content
    with client.stream("GET", "/v1/gpus", headers={"Accept-Encoding": "gzip, zstd"}) as reply:
        sent = b"".join(reply.iter_raw())
    assert reply.headers["content-encoding"] == "zstd"
    assert zstd.decompress(sent) == plain


def test_a_plan_and_a_problem_are_compressed_too(client: TestClient) -> None:
    headers = {"Accept-Encoding": "gzip"}
    catalog = client.post("/v1/plan", json={"model": GEMMA["model"]}, headers=headers)
    assert catalog.headers["content-encoding"] == "gzip"
    assert int(catalog.headers["content-length"]) < 20_000
    flags = {f"unknown_flag_{n}": 1 for n in range(30)}
    problem = client.post("/v1/plan", json={**GEMMA, "serve": flags}, headers=headers)
    assert problem.headers["content-encoding"] == "gzip"
    assert problem.json()["status"] == 422


def test_a_short_answer_is_sent_as_it_is(client: TestClient) -> None:
    assert "content-encoding" not in client.get("/livez", headers={"Accept-Encoding": "gzip"}).headers


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("", None),
        ("identity", None),
        ("br", None),
        ("gzip;q=0", None),
        ("*;q=0", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("gzip;q=0.1, identity;q=0.5", "gzip"),
        ("deflate, gzip;q=1.0", "gzip"),
        ("gzip;q=nonsense", None),
    ],
)
def test_the_encoding_is_one_that_the_caller_accepts(accepted: str, expected: str | None) -> None:
    assert chosen_encoding(accepted) == expected


@pytest.mark.parametrize(
    ("path", "member"), [("/v1/gpus", "gpus"), ("/v1/models", "models"), ("/v1/problems", "problems")]
)
def test_pages_of_a_list_make_up_the_list(path: str, member: str, client: TestClient) -> None:
    whole = client.get(path).json()
    assert whole["next"] is None
    pages: list[Any] = []
    after = None
    while True:
        page = client.get(path, params={"limit": 7, **({"after": after} if after else {})}).json()
        assert 0 < len(page[member]) <= 7
        pages += page[member]
        after = page["next"]
        if after is None:
            break
    assert pages == whole[member]


def test_a_page_after_nothing_is_refused(client: TestClient) -> None:
    problem = client.get("/v1/gpus", params={"after": "no-such-gpu"}).json()
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "/after")
    assert client.get("/v1/gpus", params={"limit": 0}).json()["errors"][0]["detail"] == (
        "must be between 1 and 200 (got 0)"
    )


@pytest.mark.parametrize(
    ("method", "path", "name", "near"),
    [
        ("GET", "/v1/gpus", "limt", "limit"),
        ("GET", "/v1/models", "serch", "search"),
        ("GET", "/v1/models/google/gemma-4-31B-it", "revison", "revision"),
        ("POST", "/v1/plan", "fromat", "format"),
        ("GET", "/v1/engines", "version", None),
        ("GET", "/livez", "x", None),
    ],
)
def test_an_unknown_parameter_is_refused(
    method: str, path: str, name: str, near: str | None, client: TestClient
) -> None:
    body = GEMMA if method == "POST" else None
    reply = client.request(method, path, params={name: "1"}, json=body)
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (422, "/problems/unknown-parameter")
    assert name in problem["detail"]
    assert problem.get("nearest") == (None if near is None else [near])


@pytest.mark.parametrize("form", ["table", "command", "docker", "kubernetes"])
def test_a_body_is_answered_in_every_format_that_a_query_is(form: str, client: TestClient) -> None:
    expected = client.get("/v1/plan", params={**GEMMA_QUERY, "format": form})
    assert expected.headers["content-type"].startswith("text/plain")
    assert client.post("/v1/plan", params={"format": form}, json=GEMMA).text == expected.text
    assert client.post("/v1/plan", json={**GEMMA, "format": form}).text == expected.text
    assert client.post("/v1/plan", params={"format": "json"}, json={**GEMMA, "format": form}).json()["plans"]


def test_the_documents_are_served(app: FastAPI, client: TestClient) -> None:
    document = json.loads(json.dumps(app.openapi()))
    assert client.get("/openapi.json").json() == document
    assert yaml.safe_load(client.get("/openapi.yaml").text) == document


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/docs", headers={"Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")
    places = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text) + re.findall(r"url: '([^']+)'", page.text)
    assert len(places) >= 4
    for place in places:
        assert place.startswith("/")
        assert client.get(place).status_code == 200
    assert client.get("/docs/vendored.toml").status_code == 404


def test_vendored_files_are_those_of_the_package(client: TestClient) -> None:
    folder = files("service.api").joinpath("swagger_ui")
    listed = tomllib.loads(folder.joinpath("vendored.toml").read_text("utf-8"))["sha256"]
    assert listed.keys() == ASSETS.keys()
    assert {one.name for one in folder.iterdir() if one.is_file()} == {*listed, "vendored.toml"}
    for name, digest in listed.items():
        assert hashlib.sha256(client.get(f"/docs/{name}").content).hexdigest() == digest


def test_the_root_shows_the_way(client: TestClient) -> None:
    browser = client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert browser.headers["content-type"].startswith("text/html")
    assert client.get("/", headers={"Accept": "*/*"}).headers["content-type"] == "application/json"
    index = client.get("/").json()
    for place in (index["documentation"], *index["openapi"]):
        assert client.get(place).status_code == 200
