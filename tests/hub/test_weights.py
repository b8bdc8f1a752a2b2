"""What the headers of weights tell, read by span from where the Hub keeps large files."""

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    ConfigTooLarge,
    HubError,
    HubUnreachable,
)
from service.hub.formats.gguf import HeaderTruncated, InvalidHeader, read_gguf
from service.hub.formats.safetensors import MOST_HEADER_BYTES, HeaderTensors, read_header
from service.hub.hub_client import HubClient
from service.hub.limits import TransferLimits
from service.hub.model_files.model_info import read_info
from service.hub.transport.endpoint import Endpoint
from service.hub.transport.transfer import hub_http
from service.settings import Settings
from tests.environment import is_traced
from tests.hub.fake_hub import (
    COMMIT,
    MODEL,
    TOKEN,
    FakeHub,
    Repository,
)
from tests.hub.hub_server import HubServer, serving, shard_name
from tests.hub.test_contract import environment_of

WIDTHS = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4}


def safetensors(tensors: dict[str, tuple[str, list[int]]], *, padding: int = 0) -> bytes:
    """Return a file of zeros as the format's description has it; its tensors by dtype and shape."""
    described: dict[str, Any] = {"__metadata__": {"format": "pt", "padding": " " * padding}}
    at = 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTHS[dtype]
        for dimension in shape:
            size *= dimension
        described[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(described).encode()
    return struct.pack("<Q", len(header)) + header + bytes(at)


SHARDS = {
    shard_name(1, 2): safetensors({"a": ("BF16", [3, 5]), "b": ("F32", [7])}),
    shard_name(2, 2): safetensors({"c": ("BF16", [2]), "d": ("I32", [2, 2, 2])}, padding=300_000),
}
INDEX = {
    "metadata": {},
    "weight_map": {
        "a": shard_name(1, 2),
        "b": shard_name(1, 2),
        "c": shard_name(2, 2),
        "d": shard_name(2, 2),
    },
}
FILES = {"config.json": b"{}", "model.safetensors.index.json": json.dumps(INDEX).encode(), **SHARDS}


def hub_of(files: dict[str, bytes]) -> FakeHub:
    return FakeHub({MODEL: Repository(files)})


@contextmanager
def storing(files: dict[str, bytes]) -> Iterator[HubServer]:
    with serving(hub_of(files)) as server:
        server.hub.storage = server.storage
        yield server


def endpoint(server: HubServer) -> Endpoint:
    return Endpoint(server.endpoint, TOKEN, (f"localhost:{server.port}",))


async def test_headers_are_read_from_the_store_without_the_token() -> None:
    with storing(FILES) as server:
        async with hub_http() as http:
            client = HubClient(http, endpoint=endpoint(server))
            commit, weights = await client.weights(MODEL)
            requested = len(server.hub.requests)
            assert await client.weights(MODEL, COMMIT) == (commit, weights)
            assert len(server.hub.requests) == requested
            await client.close()
    assert (commit, weights.files, weights.whole) == (COMMIT, tuple(SHARDS), True)
    # 3 x 5 + 2 of two bytes, 7 of four, 2 x 2 x 2 of four.
    assert weights.tensors == HeaderTensors(
        4, {"BF16": 17, "F32": 7, "I32": 8}, {"BF16": 34, "F32": 28, "I32": 32}
    )
    stored = [request for request in server.hub.requests if request.url.path.startswith("/lfs/")]
    assert len(stored) == 3  # the second header is longer than the first span
    assert not any("Authorization" in request.headers for request in stored)


THEIRS = """
import json, sys
from huggingface_hub import HfApi
found = HfApi().get_safetensors_metadata(sys.argv[1])
print(json.dumps(found.parameter_count))
"""


def counted_by_the_hubs_own_library(server: HubServer, home: Path) -> dict[str, int]:
    environment = environment_of(server.endpoint, home)
    command = [sys.executable, "-c", THEIRS, MODEL]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    counted: dict[str, int] = json.loads(done.stdout)
    return counted


async def test_the_hubs_own_library_counts_the_same(tmp_path: Path) -> None:
    with storing(FILES) as server:
        theirs = counted_by_the_hubs_own_library(server, tmp_path)
        async with hub_http() as http:
            client = HubClient(http, endpoint=endpoint(server))
            _, weights = await client.weights(MODEL)
            await client.close()
    assert theirs == weights.tensors.parameters


def asking(hub: FakeHub) -> TestClient:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(hub.answer))
    return TestClient(create_app(build_services(Settings(HF_ENDPOINT="https://hub.test"), http)))


def test_weights_are_answered_over_http() -> None:
    with asking(hub_of(FILES)) as client:
        answer = client.get(f"/models/{MODEL}/weights").json()
        missing = client.get("/models/acme/none/weights")
    assert (answer["files"], answer["files_read"], answer["revision"]) == (list(SHARDS), 2, COMMIT)
    assert (answer["tensors"], answer["total_bytes"]) == (4, 34 + 28 + 32)
    assert missing.json()["type"] == "/problems/model-not-found"


# A quantization that states no layout: the parameters are as sure as the checkpoint's size.
UNREADABLE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "aqlm"},
}


@pytest.mark.parametrize(
    ("config", "headers"), [(UNREADABLE, 1), ({**UNREADABLE, "quantization_config": None}, 0)]
)
def test_headers_are_read_where_a_verdict_depends_on_them(config: dict[str, object], headers: int) -> None:
    files = {"config.json": json.dumps(config).encode(), "model.safetensors": SHARDS[shard_name(1, 2)]}
    hub = hub_of(files)
    with asking(hub) as client:
        for _ in range(2):
            answer = client.post("/plan", json={"model": MODEL, "gpus": ["rtx-3090-24gb"]})
            assert answer.json()["model"]["checkpoint_bytes"] == (15 * 2 + 7 * 4 if headers else None)
    assert sum("model.safetensors" in path for path in hub.paths()) == headers


async def test_a_store_that_is_not_named_is_not_asked() -> None:
    hub = hub_of(FILES)
    hub.storage = "https://store.evil.test"
    with pytest.raises(HubUnreachable, match="another host"):
        await hub.client().weights(MODEL)
    assert {request.url.host for request in hub.requests} == {"hub.test"}


@pytest.mark.parametrize("status", [429, 503])
async def test_a_store_that_fails_is_not_taken_for_the_hub(status: int) -> None:
    hub = hub_of(FILES)
    hub.storage = "https://cdn.hf.co"
    client = hub.client()
    hub.play(
        f"/lfs/{MODEL}/{shard_name(1, 2)}", lambda: httpx2.Response(status, headers={"Retry-After": "99"})
    )
    with pytest.raises(HubUnreachable):
        await client.weights(MODEL, file=shard_name(1, 2))
    hub.repositories["acme/other"] = Repository({"config.json": b"{}"})
    for _ in range(5):
        assert (await client.fetch("acme/other")).id == "acme/other"


async def test_an_index_that_stalls_does_not_hold_up_a_config() -> None:
    hub = hub_of(FILES)

    async def stall(_: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    hub.faults["/model.safetensors.index.json"] = stall
    client = hub.client(limits=TransferLimits(total_seconds=2.0))
    before = time.monotonic()
    assert (await client.fetch(MODEL)).config == {}
    assert time.monotonic() - before < 20
    requested = len(hub.requests)
    assert (await client.fetch(MODEL)).config == {}
    assert len(hub.requests) == requested


async def test_what_a_quota_cuts_off_goes_on_later() -> None:
    files = {shard_name(n, 20): SHARDS[shard_name(1, 2)] for n in range(1, 21)}
    hub = hub_of({"config.json": b"{}", **files})
    clock = [0.0]
    client = hub.client(clock=lambda: clock[0])
    hub.play(shard_name(11, 20), lambda: httpx2.Response(429, headers={"Retry-After": "7"}))
    _, weights = await client.weights(MODEL)
    assert 1 <= weights.read < 20
    assert weights.fault is not None
    assert "again in 7 s" in weights.fault
    hub.faults.clear()
    clock[0] = 7.0
    before = len(hub.requests)
    _, again = await client.weights(MODEL)
    assert again.whole
    assert len(hub.requests) - before <= 20 - weights.read
    assert again.tensors.count == 40


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", ConfigNotJson),
        (b"\x02\0\0\0", ConfigNotJson),
        (struct.pack("<Q", 1 << 63) + b"{}", ConfigTooLarge),
        (struct.pack("<Q", 5 << 20) + b"{}", ConfigTooLarge),
        (struct.pack("<Q", 9999) + b"{}", ConfigNotJson),
        (struct.pack("<Q", 4) + b"[[]]", ConfigNotJson),
        (struct.pack("<Q", 12) + b'{"a": "what"', ConfigNotJson),
        (struct.pack("<Q", 13) + b'{"a": "what"}', ConfigNotJson),
    ],
)
async def test_a_header_that_is_none_is_refused(body: bytes, error: type[HubError]) -> None:
    with pytest.raises(error):
        await hub_of({"config.json": b"{}", "model.safetensors": body}).client().weights(MODEL)


@pytest.mark.parametrize(
    "tensor",
    [
        {"dtype": "BF16", "shape": [1], "data_offsets": [2, 0]},
        {"dtype": "BF16", "shape": [-1], "data_offsets": [0, 2]},
        {"dtype": "BF16", "shape": [True], "data_offsets": [0, 2]},
        {"dtype": "<script>", "shape": [1], "data_offsets": [0, 2]},
        {"dtype": 7, "shape": [1], "data_offsets": [0, 2]},
        {"dtype": "BF16", "shape": 1, "data_offsets": [0, 2]},
        {"dtype": "BF16", "shape": [1], "data_offsets": [0]},
        {"shape": [1], "data_offsets": [0, 2]},
    ],
)
def test_a_tensor_that_is_none_is_refused(tensor: object) -> None:
    with pytest.raises(ConfigNotJson):
        read_header(json.dumps({"a": tensor}).encode(), model_id=MODEL, file="model.safetensors")


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(vocabulary: int = 3) -> bytes:
    """Return the header of a GGUF file of two tensors, after the format's description."""
    entries = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 32),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, vocabulary) + text("token") * vocabulary,
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, vocabulary) + bytes(4 * vocabulary),
    ]
    tensors = [
        text("output.weight") + struct.pack("<IQQIQ", 2, 512, 8, 12, 0),
        text("norm.weight") + struct.pack("<IQIQ", 1, 512, 0, 4096),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    return head + b"".join(entries) + b"".join(tensors)


# 512 x 8 elements in blocks of 256 of 144 bytes; 512 of four bytes.
GGUF_TENSORS = HeaderTensors(2, {"F32": 512, "Q4_K": 4096}, {"F32": 2048, "Q4_K": 2304})


async def test_a_gguf_header_of_megabytes_is_read_by_spans() -> None:
    hub = hub_of({"tiny-Q4_K_M.gguf": gguf(200_000) + bytes(1000), "README.md": b"#"})
    _, weights = await hub.client().weights(MODEL)
    assert weights.tensors == GGUF_TENSORS
    assert [request.headers["Range"] for request in hub.requests[1:]] == [
        "bytes=0-1048575",
        "bytes=1048576-2097151",
        "bytes=2097152-4194303",
    ]


async def test_of_several_gguf_files_one_must_be_named() -> None:
    hub = hub_of({"a-Q4_0.gguf": gguf(), "b-Q8_0.gguf": gguf()})
    with pytest.raises(ConfigNotFound, match=r"a-Q4_0\.gguf, b-Q8_0\.gguf"):
        await hub.client().weights(MODEL)
    _, weights = await hub.client().weights(MODEL, file="b-Q8_0.gguf")
    assert weights.files == ("b-Q8_0.gguf",)
    with pytest.raises(ConfigNotFound):
        await hub.client().weights(MODEL, file="../../api/whoami-v2")


def test_a_gguf_header_that_is_cut_goes_on() -> None:
    whole = gguf()
    assert read_gguf(whole) == GGUF_TENSORS
    for end in range(len(whole)):
        with pytest.raises(HeaderTruncated):
            read_gguf(whole[:end])


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: b"GGML" + whole[4:],
        lambda whole: whole[:4] + struct.pack("<I", 9) + whole[8:],
        lambda whole: whole[:8] + struct.pack("<Q", 1 << 60) + whole[16:],
        lambda whole: whole.replace(struct.pack("<IIQ", 9, 8, 3), struct.pack("<IIQ", 9, 9, 3)),
        lambda whole: whole.replace(struct.pack("<IIQ", 9, 8, 3), struct.pack("<IIQ", 9, 8, 1 << 62)),
        lambda whole: whole.replace(
            struct.pack("<IQQIQ", 2, 512, 8, 12, 0), struct.pack("<IQQIQ", 2, 512, 8, 99, 0)
        ),
        lambda whole: whole.replace(
            struct.pack("<IQQIQ", 2, 512, 8, 12, 0), struct.pack("<IQQIQ", 2, 511, 1, 12, 0)
        ),
    ],
)
def test_what_is_no_gguf_header_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(InvalidHeader):
        read_gguf(change(gguf()))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_do_harm(noise: bytes, at: int) -> None:
    whole = gguf()
    with suppress(HeaderTruncated, InvalidHeader):
        assert read_gguf(whole[:at] + noise + whole[at + len(noise) :]).count >= 0


def header_of(tensors: dict[str, Any]) -> bytes:
    header = json.dumps(tensors).encode()
    return struct.pack("<Q", len(header)) + header


def tensor_of(shape: Any, offsets: list[int], dtype: str = "BF16") -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HUGE = (1 << 60) - 1
HOSTILE_HEADERS = {
    "200,000 huge dimensions": {"a": tensor_of([HUGE] * 180_000, [0, 2])},
    "33 dimensions": {"a": tensor_of([1] * 33, [0, 2])},
    "huge product": {"a": tensor_of([HUGE] * 32, [0, 2])},
    "huge product of nothing": {"a": tensor_of([HUGE, HUGE], [0, 0])},
    "shape of a text": {"a": tensor_of("1" * 100, [0, 2])},
    "shape of an object": {"a": tensor_of({"1": 1}, [0, 2])},
    "size of another shape": {"a": tensor_of([3], [0, 8])},
    "odd bits": {"a": tensor_of([3], [0, 2], "F4")},
    "same bytes": {"a": tensor_of([4], [0, 8]), "b": tensor_of([4], [4, 12])},
    "all in the same bytes": {f"t{i}": tensor_of([1 << 30], [0, 1 << 31]) for i in range(30_000)},
    "many types": {f"t{i}": tensor_of([1], [i, i + 1], f"X{i}") for i in range(30_000)},
    "many lists": {"a": tensor_of([[]] * 99_000, [0, 2])},
    "digits": {"a": tensor_of([0], [0, 10**4200])},
}


@pytest.mark.parametrize("tensors", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS.keys())
async def test_a_hostile_header_is_refused_at_once(tensors: dict[str, Any]) -> None:
    whole = header_of(tensors)
    assert len(whole) <= MOST_HEADER_BYTES
    started = time.process_time()
    with pytest.raises(ConfigNotJson):
        await hub_of({"model.safetensors": whole}).client().weights(MODEL)
    assert time.process_time() - started < 10


def test_tensors_of_no_elements_and_of_less_than_a_byte_are_read() -> None:
    header = {"a": tensor_of([0, 1 << 59, 1 << 59], [0, 0]), "b": tensor_of([2, 3], [0, 3], "F4")}
    read = read_header(json.dumps(header).encode(), model_id=MODEL, file="f")
    assert read == HeaderTensors(2, {"BF16": 0, "F4": 6}, {"BF16": 0, "F4": 3})


def gguf_of(entries: int, body: bytes, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + body


STRINGS = struct.pack("<QIIQ", 0, 9, 8, 1 << 20) + bytes(8 << 20)
EMPTY_ENTRY = struct.pack("<QIB", 0, 7, 0)
ONE_TENSOR = struct.pack("<QI", 0, 8) + struct.pack("<8Q", *[(1 << 64) - 1] * 8) + struct.pack("<IQ", 0, 0)
HOSTILE_GGUFS = {
    "arrays of empty strings": gguf_of(2, STRINGS + STRINGS[:4000]),
    "arrays of arrays": gguf_of(1, struct.pack("<QIIQ", 0, 9, 9, 1 << 20) + bytes(8 << 20)),
    "a million entries": gguf_of(1 << 20, EMPTY_ENTRY * 600_000 + struct.pack("<QI", 0, 99)),
    "huge dimensions": gguf_of(0, ONE_TENSOR, 1),
    "a string beyond the file": gguf_of(1, struct.pack("<QIQ", 0, 8, 1 << 63)),
    "more tensors than any": gguf_of(0, b"", 1 << 40),
}


@pytest.mark.skipif(is_traced(), reason="coverage takes several times as long")
@pytest.mark.parametrize("whole", HOSTILE_GGUFS.values(), ids=HOSTILE_GGUFS.keys())
def test_a_hostile_gguf_header_is_refused_at_once(whole: bytes) -> None:
    started = time.process_time()
    with pytest.raises(InvalidHeader):
        read_gguf(whole)
    assert time.process_time() - started < 10


def test_parameters_that_the_hub_states_beyond_reason_are_not_believed() -> None:
    for counts in ({"BF16": 1 << 60}, {f"X{i}": 1 for i in range(33)}, {"x" * 33: 1}, {"BF16": True}):
        assert read_info({"safetensors": {"parameters": counts}}).parameter_counts is None
    assert read_info({"safetensors": {"parameters": {"BF16": 7}}}).parameter_counts == {"BF16": 7}
