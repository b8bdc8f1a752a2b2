"""Models in GGUF's format on the Hub: names as llama-server reads them, headers by ranges, plans."""

import struct
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.api.app import create_app
from service.bootstrap import build_services
from service.cli.main import cli
from service.hub.errors import ConfigNotFound, ConfigNotJson, HubTimedOut
from service.hub.limits import TransferLimits
from service.hub.model_files.gguf_name import GgufName, projector_of
from service.settings import Settings
from tests.hub.fake_hub import COMMIT, FakeHub, Repository
from tests.hub.hub_server import serving
from tests.llama_cpp.test_gguf_model import GEMMA4, header

MODEL = "acme/gemma-4-GGUF"
LONG = {**GEMMA4, "tokenizer.ggml.merges": ["a b" * 60] * 9000}
"""A header of 1.7 MB, for which the first range is too short."""
LISTED = [
    "BF16/big-BF16-00001-of-00002.gguf",
    "BF16/big-BF16-00002-of-00002.gguf",
    "big-IQ4_XS.gguf",
    "big-Q4_K_M.gguf",
    "big-UD-Q4_K_XL.gguf",
    "imatrix_Q8_0.gguf",
    "mmproj-F16.gguf",
]


def hub_of(**files: bytes) -> FakeHub:
    return FakeHub(
        {MODEL: Repository({name.replace("__", "-") + ".gguf": body for name, body in files.items()})}
    )


def asking(hub: FakeHub) -> TestClient:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(hub.answer))
    return TestClient(create_app(build_services(Settings(HF_ENDPOINT="https://hub.test"), http)))


def asked(hub: FakeHub, model: str = MODEL, **members: Any) -> httpx2.Response:  # noqa: ANN401
    body = {"model": model, "gpus": ["t4-16gb:1"], "engine": {"name": "llama.cpp"}, **members}
    with asking(hub) as client:
        reply: httpx2.Response = client.post("/plan", json=body)
    return reply


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (MODEL, ("big-Q4_K_M.gguf",)),
        (f"{MODEL}:q4_k_m", ("big-Q4_K_M.gguf",)),
        (f"{MODEL}:UD-Q4_K_XL", ("big-UD-Q4_K_XL.gguf",)),
        (f"{MODEL}:BF16", tuple(LISTED[:2])),
        (f"{MODEL}:F16", tuple(LISTED[:2])),
        (f"{MODEL}:Q8_0", ()),
        (f"{MODEL}/big-IQ4_XS.gguf", ("big-IQ4_XS.gguf",)),
        (f"{MODEL}/BF16/big-BF16-00001-of-00002.gguf", tuple(LISTED[:2])),
        (f"{MODEL}/none.gguf", ()),
    ],
)
def test_a_name_selects_the_files_that_llama_server_loads(text: str, files: tuple[str, ...]) -> None:
    """By hand from common/download.cpp: the first file whose path has the tag before `.` or `-`."""
    named = GgufName.of(text) or GgufName(text)
    assert named.files(LISTED) == files
    assert str(named) == text


def test_without_a_tag_any_file_is_taken_and_no_projector() -> None:
    assert GgufName(MODEL).files(["mmproj-Q4_K_M.gguf", "x-Q2_K.gguf"]) == ("x-Q2_K.gguf",)
    assert projector_of(LISTED) == "mmproj-F16.gguf"


@pytest.mark.parametrize("text", ["a/b:", "a/b:../x", "a/b:Q4 K", "a:Q4", "a/b/c", "a/b/../c.gguf"])
def test_what_names_no_gguf_weights(text: str) -> None:
    assert GgufName.of(text) is None


def test_a_plan_by_a_header_read_in_ranges() -> None:
    """The same bytes by hand as of a local file: one global layer of 4 heads, five of windows."""
    hub = hub_of(x__Q4_K_M=header(LONG) + bytes(1 << 20), mmproj__F16=b"")
    serve = {"c": 4096, "np": 1}
    reply = asked(hub, f"{MODEL}:Q4_K_M", serve=serve)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    (plan,) = answer["plans"]
    assert answer["model"] is None
    assert plan["cache_bytes"] == [4096 * 8192 + 5 * 1536 * 16 * 256 * 2 * 2]
    assert plan["command"] == f"llama-server -hf {MODEL}:Q4_K_M -c 4096 -np 1"
    (note,) = [each for each in plan["notes"] if COMMIT[:12] in each]
    assert "x-Q4_K_M.gguf" in note
    assert "mmproj-F16.gguf" in note
    spans = [each.headers["Range"] for each in hub.requests if "Range" in each.headers]
    assert spans == ["bytes=0-1048575", f"bytes=1048576-{(2 << 20) - 1}"]


def test_a_repository_and_a_file_of_it() -> None:
    files = {"x__Q8_0": header(GEMMA4), "x__Q2_K": header({**GEMMA4, "gemma4.context_length": 512})}
    for model, serve in (
        (MODEL, {"hff": "x-Q2_K.gguf"}),
        (f"{MODEL}/x-Q2_K.gguf", {}),
        (MODEL, {"quant": "q2_k"}),
    ):
        (plan,) = asked(hub_of(**files), model, serve=serve).json()["plans"]
        assert plan["longest_request"]["tokens"] == 512
    (plan,) = asked(hub_of(**files)).json()["plans"]
    assert plan["longest_request"]["tokens"] > 512


def test_a_repository_without_the_word_in_its_name() -> None:
    hub = FakeHub({"acme/tiny": Repository({"tiny-Q4_K_M.gguf": header(GEMMA4)})})
    reply = asked(hub, "acme/tiny")
    assert reply.status_code == 200, reply.text
    assert reply.json()["plans"][0]["command"].startswith("llama-server -hf acme/tiny")


def test_the_parts_of_a_split_model_add_up() -> None:
    """The tensors of the second part lie in the last layer; 64 x 64 of them in 16 bits are there twice."""
    first = header(GEMMA4)
    second = header({"split.no": 1}).replace(b"blk.5.attn_q", b"blk.5.attn_k").replace(b"blk.0", b"blk.1")
    names = ("x-BF16-00001-of-00002", "x-BF16-00002-of-00002")
    hub = FakeHub(
        {MODEL: Repository({f"{name}.gguf": body for name, body in zip(names, (first, second), strict=True)})}
    )
    whole = asked(hub, f"{MODEL}:BF16").json()["plans"][0]
    alone = asked(hub_of(x=first)).json()["plans"][0]
    assert _weights(whole) - _weights(alone) == 64 * 32 * 2 + 64 * 64 * 2


def _weights(plan: dict[str, Any]) -> int:
    (term,) = [each for each in plan["memory"] if each["name"] == "model buffer"]
    size: int = term["bytes"]
    return size


def test_the_vocabulary_is_the_list_of_tokens() -> None:
    """llama.cpp 0c1e57098, src/llama-vocab.cpp: the length of the list, where no entry says another."""
    buffers = []
    for tokens in (2, 200_000):
        values = {**GEMMA4, "tokenizer.ggml.tokens": ["a"] * tokens}
        (plan,) = asked(hub_of(x=header(values)), serve={"c": 512, "np": 1}).json()["plans"]
        buffers += [each["bytes"] for each in plan["memory"] if each["name"] == "compute buffer"]
    assert buffers[1] - buffers[0] >= 199_998 * 512 * 4


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"gemma4.block_count": 4_000_000_000}, "block_count"),
        ({"gemma4.block_count": 0}, "block_count"),
        ({"gemma4.nextn_predict_layers": 7}, "block_count"),
        ({"gemma4.block_count": [6]}, "wrong type"),
        ({"gemma4.attention.head_count_kv": [1]}, "wrong array length"),
        ({"general.architecture": "rwkv7"}, "not modelled"),
        ({"general.architecture": "none"}, "key not found in model: none.block_count"),
    ],
)
def test_a_header_of_no_model_is_refused(values: dict[str, object], said: str) -> None:
    reply = asked(hub_of(x=header({**GEMMA4, **values})))
    assert reply.status_code == 422
    assert said in reply.json()["errors"][0]["detail"]


async def test_what_is_no_gguf_file() -> None:
    for body in (b"", b"PK", b"GGUF", header(GEMMA4)[:-1], b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 1)):
        with pytest.raises(ConfigNotJson):
            await hub_of(x=body).client().gguf(GgufName(MODEL))
    with pytest.raises(ConfigNotFound, match="GGUF file of Q8_0; its GGUF files: x-Q4_0"):
        await hub_of(x__Q4_0=b"").client().gguf(GgufName(MODEL, tag="Q8_0"))


async def test_a_header_is_kept_and_a_slow_one_given_up() -> None:
    hub = hub_of(x=header(GEMMA4))
    client = hub.client()
    read = await client.gguf(GgufName(MODEL))
    requested = len(hub.requests)
    assert await client.gguf(GgufName(MODEL)) == read
    assert len(hub.requests) == requested

    async def stall(_: httpx2.Request) -> httpx2.Response:
        raise TimeoutError

    hub.faults["x.gguf"] = stall
    with pytest.raises(HubTimedOut):
        await hub.client(limits=TransferLimits(total_seconds=0.5)).gguf(GgufName(MODEL))


@pytest.mark.parametrize(
    ("model", "words"),
    [(MODEL, f"name one, as {MODEL}:Q4_K_M"), (f"{MODEL}:Q4_0", "--engine llama.cpp")],
)
def test_other_engines_say_how_it_is_planned(model: str, words: str) -> None:
    with asking(hub_of(x__Q4_0=header(GEMMA4))) as client:
        for members in ({}, {"engine": {"name": "sglang"}}, {"engines": ["vllm", "llama.cpp"]}):
            reply = client.post("/plan", json={"model": model, "gpus": ["t4-16gb"], **members})
            assert reply.status_code in {404, 422}
            assert words in reply.json()["detail"]


def test_a_repository_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYSERVE_CACHE", str(tmp_path / "hub.sqlite3"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    words = ["--engine", "llama.cpp", "--gpu", "t4-16gb", "--engine-flags", "-c 512 -np 1"]
    with serving(hub_of(x__Q4_0=header(GEMMA4))) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        for model in (f"{MODEL}:Q4_0", f"{MODEL}/x-Q4_0.gguf"):
            found = CliRunner().invoke(cli, ["plan", model, *words, "--format", "table"])
            assert found.exit_code == 0, found.output
            assert found.output.startswith(f"{model}: ")
            assert f"{MODEL}/x-Q4_0.gguf at commit" in " ".join(found.output.split())
        missing = CliRunner().invoke(cli, ["plan", f"{MODEL}:Q2_K", *words])
    assert missing.exit_code == 2
    assert "no GGUF file of Q2_K; its GGUF files: x-Q4_0.gguf" in missing.output


async def test_a_header_with_the_largest_vocabularies_is_read() -> None:
    """262,144 tokens, 515,000 merges of some 14 bytes: more than 16 MiB, as large vocabularies have."""
    values = {
        **GEMMA4,
        "tokenizer.ggml.tokens": ["seven b"] * 262_144,
        "tokenizer.ggml.merges": ["seven bytes to"] * 515_000,
        "tokenizer.ggml.scores": [0] * 262_144,
        "tokenizer.ggml.token_type": [1] * 262_144,
    }
    whole = header(values)
    assert 16 << 20 < len(whole) < 32 << 20
    found = await hub_of(x=whole + bytes(20 << 20)).client().gguf(GgufName(MODEL))
    assert found.header.vocabulary == 262_144
