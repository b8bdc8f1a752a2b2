"""Every bad input is a problem of its own kind, and says where and what instead."""

import json
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.api.problems.http_problem_types import (
    PROBLEM_TYPES,
    TYPE_BY_ERROR,
    problem_type_of,
)
from service.application.plans.plan_requests import MAX_COMPARED, MAX_DETAILED_GPUS
from service.application.problems.problem_types import INTERNAL_ERROR
from service.application.schemas.requests.plan_body import MAX_VERSIONS
from service.application.services import Services
from service.hub.errors import HubError
from tests.api.plan_bodies import (
    GEMMA,
    LLAMA_CONFIG,
    with_engine,
    with_serve,
)

BAD_QUESTIONS: list[tuple[Any, str, str | None, str | None]] = [
    ({**GEMMA, "gpus": ["rtx-3091"]}, "unknown-gpu", "/gpus/0", "rtx-3090-24gb"),
    ({**GEMMA, "gpus": ["A100"]}, "ambiguous-gpu", "/gpus/0", "a100-sxm-80gb"),
    (
        {**GEMMA, "gpus": [{"name": "mine", "memory_bytes": 1 << 35, "compute_capability": "99.0"}]},
        "invalid-gpu",
        "/gpus/0/compute_capability",
        None,
    ),
    ({**GEMMA, "gpus": ["rtx-3090-24gb", "h1000"]}, "unknown-gpu", "/gpus/1", None),
    ({**GEMMA, "gpus": ["mi300x-192gb"]}, "gpu-not-modelled", "/gpus/0", None),
    (
        {**GEMMA, "gpus": [{"name": "mine", "memory_bytes": 24, "compute_capability": "8.6"}]},
        "invalid-gpu",
        "/gpus/0/memory_bytes",
        None,
    ),
    (
        {**GEMMA, "gpus": [{"name": "mine", "memory_bytes": 24}]},
        "invalid-request",
        "/gpus/0/compute_capability",
        None,
    ),
    ({**GEMMA, "gpus": [7]}, "invalid-request", "/gpus/0", None),
    ({**GEMMA, "gpus": []}, "invalid-request", "/gpus", None),
    (with_engine(GEMMA, "0.18.7"), "unknown-release", "/engine/version", None),
    (with_engine(GEMMA, "0.19.7"), "unknown-release", "/engine/version", "0.19.1"),
    (with_engine(GEMMA, "nightly"), "unknown-release", "/engine/version", None),
    (with_engine(GEMMA, "0.20.2", "vllm#40392"), "unknown-patch", "/engine/patches/0", "vllm#40391"),
    ({**GEMMA, "engine": {"name": "tgi"}}, "invalid-request", "/engine/name", None),
    (
        with_serve(GEMMA, tensor_paralel_size=2),
        "unknown-flag",
        "/serve/tensor_paralel_size",
        "tensor_parallel_size",
    ),
    (with_serve(GEMMA, trust_remote_code=True), "unknown-flag", "/serve/trust_remote_code", None),
    (
        with_serve(GEMMA, speculative_config={"methd": "mtp"}),
        "unknown-flag",
        "/serve/speculative_config/methd",
        "method",
    ),
    (
        with_serve(GEMMA, speculative_config={"method": "eagle4", "num_speculative_tokens": 1}),
        "unknown-speculative-method",
        "/serve/speculative_config/method",
        "eagle3",
    ),
    (
        with_serve(GEMMA, speculative_config={"model": "nobody/nothing", "num_speculative_tokens": 1}),
        "model-not-found",
        "/serve/speculative_config/model",
        None,
    ),
    (
        with_serve(GEMMA, speculative_config={"num_speculative_tokens": 0}),
        "invalid-request",
        "/serve/speculative_config/num_speculative_tokens",
        None,
    ),
    (
        with_serve(GEMMA, speculative_config="mtp"),
        "invalid-request",
        "/serve/speculative_config",
        None,
    ),
    (
        {
            **with_serve(GEMMA, speculative_config={"model": "a/b", "num_speculative_tokens": 1}),
            "draft_config": {"architectures": ["LlamaForCausalLM"], "hidden_size": "x"},
        },
        "invalid-config",
        "/draft_config/hidden_size",
        None,
    ),
    (with_serve(GEMMA, tensor_parallel_size=0), "invalid-request", "/serve/tensor_parallel_size", None),
    (with_serve(GEMMA, tensor_parallel_size="2"), "invalid-request", "/serve/tensor_parallel_size", None),
    (with_serve(GEMMA, enforce_eager=1), "invalid-request", "/serve/enforce_eager", None),
    (with_serve(GEMMA, gpu_memory_utilization=1.5), "invalid-request", "/serve/gpu_memory_utilization", None),
    (with_serve(GEMMA, max_model_len=0), "invalid-request", "/serve/max_model_len", None),
    (
        with_serve(GEMMA, kv_cache_memory_bytes=10**30),
        "invalid-request",
        "/serve/kv_cache_memory_bytes",
        None,
    ),
    (with_serve(GEMMA, kv_cache_dtype="fp9"), "unknown-kv-cache-dtype", "/serve/kv_cache_dtype", "fp8"),
    (
        with_serve(with_engine(GEMMA, "0.19.0"), kv_cache_dtype="int8_per_token"),
        "unknown-kv-cache-dtype",
        "/serve/kv_cache_dtype",
        "int8_per_token_head",
    ),
    (
        with_serve(GEMMA, attention_backend="FASTEST"),
        "unknown-attention-backend",
        "/serve/attention_backend",
        None,
    ),
    ({**GEMMA, "objective": "speed"}, "invalid-request", "/objective", None),
    ({**GEMMA, "workload": {"prompt_tokens": 0}}, "invalid-request", "/workload/prompt_tokens", None),
    ({**GEMMA, "modell": "x"}, "invalid-request", "/modell", None),
    ({**GEMMA, "model": "\ud800"}, "invalid-request", "/model", None),
    ({"gpus": ["rtx-3090-24gb"]}, "invalid-request", "/model", None),
    ({**GEMMA, "config": {}}, "invalid-config", "/config/architectures", None),
    (
        {**GEMMA, "config": {"architectures": ["Gemma4ForTheWin"]}},
        "unknown-architecture",
        "/config/architectures",
        None,
    ),
    (
        {**GEMMA, "config": {"architectures": ["\ud800"]}},
        "unknown-architecture",
        "/config/architectures",
        None,
    ),
    (
        {**GEMMA, "config": {**LLAMA_CONFIG, "hidden_size": -1}},
        "invalid-config",
        "/config/hidden_size",
        None,
    ),
    ({**GEMMA, "model": "google/gemma-4-31B"}, "model-not-found", None, "google/gemma-4-31B-it"),
    ({**GEMMA, "model": "../../etc/passwd"}, "invalid-model-id", None, None),
    ({**GEMMA, "revision": "a/../b"}, "invalid-revision", None, None),
    ({**GEMMA, "revision": "v2"}, "revision-not-found", None, None),
    ([], "invalid-request", "", None),
    (None, "invalid-request", "", None),
]


@pytest.mark.parametrize(("question", "slug", "pointer", "nearest"), BAD_QUESTIONS)
def test_a_bad_question(
    question: object, slug: str, pointer: str | None, nearest: str | None, client: TestClient
) -> None:
    # Escaped, so that a lone surrogate gets through as JSON lets it.
    body = json.dumps(question, ensure_ascii=True)
    reply = client.post("/plan", content=body, headers={"Content-Type": "application/json"})
    problem = reply.json()
    assert problem["type"] == f"/problems/{slug}", problem
    assert reply.status_code == problem["status"]
    assert 400 <= reply.status_code < 500
    assert reply.headers["content-type"] == "application/problem+json"
    assert problem["instance"].endswith(reply.headers["x-request-id"])
    if pointer is not None:
        assert pointer in [error["pointer"] for error in problem["errors"]]
    if nearest is not None:
        assert nearest in problem["nearest"]


@pytest.mark.parametrize(
    ("query", "slug", "pointer"),
    [
        ({}, "invalid-request", "/model"),
        ({"model": GEMMA["model"], "gpu": "rtx-3091"}, "unknown-gpu", "/gpus/0"),
        ({"model": GEMMA["model"], "gpu": "l4,name=x,memory=40"}, "invalid-gpu", "/gpus/0"),
        (
            {"model": GEMMA["model"], "tensor_parallel_size": "two"},
            "invalid-request",
            "/serve/tensor_parallel_size",
        ),
        ({"model": GEMMA["model"], "tensor_paralel_size": "2"}, "unknown-flag", "/serve/tensor_paralel_size"),
        ({"model": GEMMA["model"], "engine_version": "0.9"}, "unknown-release", "/engine/version"),
        ({"model": GEMMA["model"], "format": "xml"}, "invalid-request", "/format"),
    ],
)
def test_a_bad_query_is_told_in_the_words_of_a_body(
    query: dict[str, str], slug: str, pointer: str, client: TestClient
) -> None:
    problem = client.get("/plan", params=query).json()
    assert problem["type"] == f"/problems/{slug}", problem
    assert pointer in [error["pointer"] for error in problem["errors"]]


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"model": }', b"\xff\xfe", b"[" * 100_000, b'{"model": ' + b"9" * 5000 + b"}"]
)
def test_a_body_that_is_not_json(body: bytes, client: TestClient) -> None:
    reply = client.post("/plan", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in {400, 422}
    assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "text/plain", "text/json"])
def test_a_body_sent_as_another_type(media_type: str, client: TestClient) -> None:
    reply = client.post("/plan", content=b"{}", headers={"Content-Type": media_type})
    assert (reply.status_code, reply.json()["type"]) == (415, "/problems/unsupported-media-type")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_beyond_17_mib_is_refused(chunked: bool, client: TestClient) -> None:
    chunk = b" " * (1 << 20)
    body = (chunk for _ in range(18)) if chunked else chunk * 18
    reply = client.post("/plan", content=body, headers={"Content-Type": "application/json"})
    assert (reply.status_code, reply.json()["type"]) == (413, "/problems/body-too-large")


def test_a_config_below_4_mib_is_read(client: TestClient) -> None:
    config = {"architectures": ["Unheard"], "padding": "x" * (4_000_000)}
    assert client.post("/plan", json={"config": config}).json()["type"] == "/problems/unknown-architecture"


def test_an_unknown_address_and_method(client: TestClient) -> None:
    assert client.get("/plans").json()["type"] == "/problems/not-found"
    reply = client.put("/plan")
    assert reply.json()["type"] == "/problems/method-not-allowed"
    assert set(reply.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_every_kind_explains_itself(client: TestClient) -> None:
    listed = client.get("/problems").json()["problems"]
    assert [one["type"] for one in listed] == [kind.type for kind in PROBLEM_TYPES]
    for one in listed:
        assert client.get(one["type"]).json() == one
    assert client.get("/problems/none").json()["type"] == "/problems/unknown-problem"


def test_kinds_are_told_apart_by_their_type() -> None:
    assert len({kind.slug for kind in PROBLEM_TYPES}) == len(PROBLEM_TYPES)


def _causes(base: type[HubError]) -> list[type[HubError]]:
    return [base, *(deeper for cls in base.__subclasses__() for deeper in _causes(cls))][base is HubError :]


@pytest.mark.parametrize("cause", _causes(HubError))
def test_every_cause_of_the_hub_has_a_kind_of_its_own(cause: type[HubError]) -> None:
    assert cause in TYPE_BY_ERROR


def test_what_nobody_foresaw_is_logged_and_not_told(
    services: Services, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(text: str) -> tuple[str, ...]:
        raise RuntimeError(f"secret {text}")

    monkeypatch.setattr(services.snapshot, "search", search)
    reply = client.get("/models")
    assert (reply.status_code, reply.json()["type"]) == (500, INTERNAL_ERROR.type)
    assert "secret" not in reply.text
    assert reply.headers["x-request-id"] in reply.json()["instance"]
    assert problem_type_of(RuntimeError()) is INTERNAL_ERROR


FLOOD = 100_000
FLOODS: dict[str, tuple[Any, str, str, str | None]] = {
    "flags": (
        with_serve(GEMMA, **{f"tensor_paralel_size{n}": 1 for n in range(FLOOD)}),
        "unknown-flag",
        "/serve/tensor_paralel_size0",
        "tensor_parallel_size",
    ),
    "speculation": (
        with_serve(GEMMA, speculative_config={f"methd{n}": 1 for n in range(FLOOD)}),
        "unknown-flag",
        "/serve/speculative_config/methd0",
        "method",
    ),
    "sections": ({**GEMMA, **{f"modell{n}": 1 for n in range(FLOOD)}}, "invalid-request", "/modell0", None),
    "gpus": (
        {**GEMMA, "gpus": [{f"n{n}": 1 for n in range(500)}] * 256},
        "invalid-request",
        "/gpus/0/n0",
        None,
    ),
    "few": (
        {**GEMMA, "gpus": [{f"n{n}": 1 for n in range(30)}] * 256},
        "invalid-request",
        "/gpus/0/name",
        None,
    ),
    "a long name": (with_serve(GEMMA, **{"x" * 3_000_000: 1}), "unknown-flag", f"/serve/{'x' * 90}", None),
    "a name of controls": (with_serve(GEMMA, **{"\0" * 500_000: 1}), "unknown-flag", "/serve/\\x00", None),
    "a long class": (
        {**GEMMA, "config": {"architectures": ["LlamaForCausalLM" * 180_000]}},
        "unknown-architecture",
        "/config/architectures",
        None,
    ),
    "many long classes": (
        {**GEMMA, "config": {"architectures": ["é" * 100_000] * 5}},
        "unknown-architecture",
        "/config/architectures",
        None,
    ),
    "a long number": (
        {**GEMMA, "config": {**LLAMA_CONFIG, "hidden_size": 10**4000}},
        "invalid-config",
        "/config/hidden_size",
        None,
    ),
    "many layers": (
        {**GEMMA, "config": {**LLAMA_CONFIG, "num_hidden_layers": 10**9}},
        "invalid-config",
        "/config/num_hidden_layers",
        None,
    ),
    "a long backend": (
        with_serve(GEMMA, kv_cache_dtype_skip_layers=["9" * 64] * 1000),
        "invalid-request",
        "/serve/kv_cache_dtype_skip_layers",
        None,
    ),
}


@pytest.mark.parametrize(("question", "slug", "pointer", "nearest"), FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_is_answered_soon_and_in_short(
    question: Any,  # noqa: ANN401 - any JSON
    slug: str,
    pointer: str,
    nearest: str | None,
    client: TestClient,
) -> None:
    body = json.dumps(question).encode()
    started = time.process_time()
    reply = client.post("/plan", content=body, headers={"Content-Type": "application/json"})
    spent = time.process_time() - started
    problem = reply.json()
    assert (problem["type"], reply.headers["content-type"]) == (
        f"/problems/{slug}",
        "application/problem+json",
    )
    assert any(error["pointer"].startswith(pointer) for error in problem["errors"]), problem
    assert nearest is None or nearest in problem["nearest"]
    assert len(reply.content) <= 20_000
    assert spent < 10


def test_what_is_not_told_one_by_one_is_counted(client: TestClient) -> None:
    for count in (11, 30, 50, 5_000):
        flags = {f"enforce_eagr{n}": True for n in range(count)}
        problem = client.post("/plan", json=with_serve(GEMMA, **flags)).json()
        assert f" and {count - 10:,} more are not modelled" in problem["detail"]
        assert len(problem["errors"]) == 10
        assert "enforce_eager" in problem["nearest"]


def test_no_more_names_are_compared_than_are_told(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def counted(word: str, *_: object, **__: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", counted)
    client.post("/plan", json=with_serve(GEMMA, **{f"x{n}": 1 for n in range(1000)}))
    assert len(compared) == 10
    client.post("/plan", json=with_serve(GEMMA, **{"x" * 1000: 1}))
    assert len(compared) == 10


def test_a_query_of_unknown_parameters_is_answered_in_short(client: TestClient) -> None:
    reply = client.get("/plan?model=a/b&" + "&".join(f"enforce_eagr{n}=1" for n in range(1500)))
    problem = reply.json()
    assert problem["type"] == "/problems/unknown-flag"
    assert (len(problem["errors"]), "enforce_eager" in problem["nearest"]) == (10, True)
    assert len(reply.content) < 20_000


def test_a_secret_in_a_question_is_not_repeated(client: TestClient) -> None:
    secret = "hf_Zq7xW2vTn9Lk4Rb8"  # noqa: S105 - made up
    for question in (
        with_serve(GEMMA, **{f"api_key={secret}": 1}),
        {**GEMMA, "config": {"architectures": [f"{{'Authorization': 'Bearer {secret[3:]}'}}"]}},
        with_engine(GEMMA, secret),
        {**GEMMA, "gpus": [secret]},
    ):
        reply = client.post("/plan", json=question)
        assert reply.status_code == 422
        assert secret[3:] not in reply.text


def test_no_more_is_planned_at_once_than_every_type_for_eight_releases(
    client: TestClient, services: Services
) -> None:
    assert sum(gpu.modelled for gpu in services.gpus) <= MAX_DETAILED_GPUS
    assert MAX_DETAILED_GPUS * MAX_VERSIONS <= MAX_COMPARED
    many = {**GEMMA, "gpus": ["rtx-3090-24gb"] * 81}
    for question in ({**many, "include": ["details"]}, {**many, "engine": {"versions": ["0.19.0"] * 8}}):
        problem = client.post("/plan", json=question).json()
        assert (problem["type"], problem["errors"][0]["pointer"]) == ("/problems/invalid-request", "/gpus")
