"""What the client asks of the Hub and makes of good answers."""

import json

import httpx2
import pytest

from service.hub.errors import (
    ConfigNotFound,
    HubUnreachable,
    NotATextModel,
    RevisionNotFound,
)
from service.hub.hub_client import HubClient
from service.hub.transport.endpoint import Endpoint
from tests.hub.fake_hub import (
    COMMIT,
    ENDPOINT,
    LLAMA,
    MODEL,
    OTHER_COMMIT,
    TOKEN,
    FakeHub,
    Repository,
    hub_with_model,
    refused,
)

CONFIG_AT_MAIN = f"/{MODEL}/resolve/main/config.json"


async def test_a_branch_is_resolved_to_the_commit_that_answered() -> None:
    fetched = await hub_with_model().client().fetch(MODEL, "main")
    assert (fetched.id, fetched.revision, fetched.source) == (MODEL, COMMIT, "hub")
    assert fetched.config == LLAMA
    assert fetched.provenance == f"{ENDPOINT}/{MODEL} at commit {COMMIT}"
    assert fetched.quantization_config is None
    assert fetched.note is None


async def test_the_commit_is_asked_for_first_and_then_the_files_that_lie_there() -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["hf_quant_config.json"] = b"{}"
    hub.repositories[MODEL].files["README.md"] = b"not asked for"
    await hub.client().fetch(MODEL)
    assert hub.paths() == [
        f"/{MODEL}/resolve/{COMMIT}/config.json",
        f"/{MODEL}/resolve/{COMMIT}/hf_quant_config.json",
        f"/api/models/{MODEL}/revision/main",
    ]
    first = hub.requests[0]
    assert first.url.params.get_list("expand[]") == [
        "safetensors",
        "sha",
        "gated",
        "siblings",
        "pipeline_tag",
    ]


async def test_a_repository_of_everything_costs_four_requests() -> None:
    hub = hub_with_model()
    listed = ("params.json", "hf_quant_config.json", "model.safetensors.index.json", "model.safetensors")
    hub.repositories[MODEL].files |= dict.fromkeys(listed, b"{}")
    await hub.client().fetch(MODEL)
    assert len(hub.requests) == 4


async def test_the_bytes_of_all_weights_are_read_from_the_first_of_an_index() -> None:
    hub = hub_with_model()
    index = {
        "metadata": {"total_size": 1369062772000},
        "weight_map": {"a" * 100: "b"} | {str(n): "c" for n in range(9999)},
    }
    hub.repositories[MODEL].files["model.safetensors.index.json"] = json.dumps(index, indent=2).encode()
    assert (await hub.client().fetch(MODEL)).total_parameter_bytes == 1369062772000
    assert hub.requests[-1].headers["Range"] == "bytes=0-4095"


@pytest.mark.parametrize(
    "index",
    [
        b"",
        b"[",
        b'{"metadata": {}}',
        b'{"metadata": {"total_size": "7"}}',
        b'{"weight_map": {}}',
        b'{"metadata": {"total_size": -7}}',
    ],
)
async def test_an_index_that_states_no_total_is_no_hindrance(index: bytes) -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["model.safetensors.index.json"] = index
    assert (await hub.client().fetch(MODEL)).total_parameter_bytes is None


async def test_without_an_index_whole_dtypes_tell_the_bytes_and_packed_ones_do_not() -> None:
    plain = await hub_with_model(parameters={"BF16": 7, "F8_E4M3": 30, "F32": 1}).client().fetch(MODEL)
    assert plain.total_parameter_bytes == 7 * 2 + 30 + 4
    packed = await hub_with_model(parameters={"BF16": 7, "I32": 30}).client().fetch(MODEL)
    assert packed.total_parameter_bytes is None


async def test_the_kv_dtype_of_a_modelopt_checkpoint_arrives() -> None:
    hub = hub_with_model()
    quantization = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    hub.repositories[MODEL].files["hf_quant_config.json"] = json.dumps(quantization).encode()
    assert (await hub.client().fetch(MODEL)).quantization_config == quantization


async def test_parameters_are_counted_by_dtype() -> None:
    fetched = await hub_with_model(parameters={"BF16": 7, "F8_E4M3": 30}).client().fetch(MODEL)
    assert fetched.parameter_counts == {"BF16": 7, "F8_E4M3": 30}
    assert fetched.total_parameters == 37


@pytest.mark.parametrize("parameters", [{"BF16": -1}, {"BF16": "7"}, {"BF16": True}, {"BF16": 1.5}, {}])
async def test_counts_that_are_no_counts_are_not_passed_on(parameters: dict[str, int]) -> None:
    hub = hub_with_model()
    info = {"sha": COMMIT, "safetensors": {"parameters": parameters}}
    hub.play("/revision/main", lambda: httpx2.Response(200, json=info))
    assert (await hub.client().fetch(MODEL)).parameter_counts is None


async def test_a_pull_request_revision_stays_one_segment_of_the_path() -> None:
    hub = hub_with_model(branches={"refs/pr/3": COMMIT})
    assert (await hub.client().fetch(MODEL, "refs/pr/3")).revision == COMMIT
    assert f"/api/models/{MODEL}/revision/refs%2Fpr%2F3" in hub.paths()
    hub.play("/refs%2Fpr%2F3", lambda: httpx2.Response(404))
    assert (await hub.client().fetch(MODEL, "refs/pr/3")).revision == COMMIT
    assert f"/{MODEL}/resolve/refs%2Fpr%2F3/config.json" in hub.paths()


async def test_a_model_without_an_organisation() -> None:
    hub = FakeHub({"gpt2": Repository({"config.json": b"{}"})})
    assert (await hub.client().fetch("gpt2")).config == {}


async def test_redirects_within_the_endpoint_are_followed() -> None:
    hub = hub_with_model()
    hub.redirects_to_cache = True
    fetched = await hub.client().fetch(MODEL)
    assert (fetched.config, fetched.revision) == (LLAMA, COMMIT)
    assert f"/api/resolve-cache/models/{MODEL}/{COMMIT}/config.json" in hub.paths()


async def test_files_of_two_commits_are_never_mixed() -> None:
    """The branch moves after its commit was told: everything is read at that commit."""
    hub = hub_with_model(branches={"main": COMMIT, "next": OTHER_COMMIT})
    hub.repositories[MODEL].files["hf_quant_config.json"] = b"{}"
    newer = {"X-Repo-Commit": OTHER_COMMIT}
    hub.play("main/hf_quant_config.json", lambda: httpx2.Response(200, headers=newer, json={"at": "newer"}))
    fetched = await hub.client().fetch(MODEL)
    assert (fetched.revision, fetched.quantization_config) == (COMMIT, {})


async def test_a_file_of_another_commit_than_asked_for_is_refused() -> None:
    hub = hub_with_model()
    newer = {"X-Repo-Commit": OTHER_COMMIT}
    hub.play("config.json", lambda: httpx2.Response(200, headers=newer, json=LLAMA))
    with pytest.raises(HubUnreachable, match="another commit"):
        await hub.client().fetch(MODEL)


async def test_without_a_commit_header_the_model_info_states_it() -> None:
    hub = hub_with_model()
    hub.play("config.json", lambda: httpx2.Response(200, json=LLAMA))
    assert (await hub.client().fetch(MODEL)).revision == COMMIT


@pytest.mark.parametrize("header", ["../../etc", COMMIT[:7], COMMIT.upper(), ""])
async def test_a_commit_header_that_is_no_commit_is_ignored(header: str) -> None:
    hub = hub_with_model()
    hub.play("config.json", lambda: httpx2.Response(200, headers={"X-Repo-Commit": header}, json=LLAMA))
    hub.play("/revision/main", lambda: httpx2.Response(500))
    assert (await hub.client().fetch(MODEL)).revision is None


async def test_missing_counts_do_not_stand_in_the_way_of_a_config() -> None:
    hub = hub_with_model()
    hub.play("/revision/main", lambda: httpx2.Response(503))
    fetched = await hub.client().fetch(MODEL)
    assert fetched.config == LLAMA
    assert fetched.note is not None
    assert "503" in fetched.note


async def test_a_gated_model_that_the_token_opens_says_so() -> None:
    fetched = await hub_with_model(gated="manual").client().fetch(MODEL)
    assert fetched.note is not None
    assert "gated" in fetched.note


async def test_a_quantization_config_that_cannot_be_read_is_not_taken_for_none() -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["hf_quant_config.json"] = b"{}"
    hub.play("hf_quant_config.json", lambda: refused(404, "RevisionNotFound"))
    with pytest.raises(RevisionNotFound):
        await hub.client().fetch(MODEL)


async def test_a_repository_without_a_config_is_named_so() -> None:
    hub = FakeHub({MODEL: Repository({})})
    with pytest.raises(ConfigNotFound, match=r"acme/tiny has no config\.json"):
        await hub.client().fetch(MODEL)


async def test_a_pipeline_of_another_library_is_named_so() -> None:
    hub = FakeHub({MODEL: Repository({"model_index.json": b"{}", "unet/config.json": b"{}"})})
    with pytest.raises(NotATextModel):
        await hub.client().fetch(MODEL)


async def test_a_repository_of_gguf_files_alone_is_named_so() -> None:
    hub = FakeHub({MODEL: Repository({"tiny-Q4_K_M.gguf": b""})})
    with pytest.raises(ConfigNotFound, match="GGUF"):
        await hub.client().fetch(MODEL)


PARAMS = {"dim": 64, "n_layers": 2}


async def test_params_are_fetched_beside_a_config_where_the_hub_lists_them() -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["params.json"] = json.dumps(PARAMS).encode()
    fetched = await hub.client().fetch(MODEL)
    assert (fetched.config, fetched.params, fetched.consolidated) == (LLAMA, PARAMS, False)
    assert f"/{MODEL}/resolve/{COMMIT}/params.json" in hub.paths()


@pytest.mark.parametrize(
    ("weights", "consolidated"),
    [
        ("consolidated.safetensors", True),
        ("consolidated-00001-of-00002.safetensors", True),
        ("original/consolidated.safetensors", True),
        ("model.safetensors", False),
        ("consolidated.00.pth", False),
    ],
)
async def test_a_repository_of_params_alone_tells_how_its_weights_are_kept(
    weights: str, consolidated: bool
) -> None:
    files = {"params.json": json.dumps(PARAMS).encode(), weights: b""}
    fetched = await FakeHub({MODEL: Repository(files)}).client().fetch(MODEL)
    assert (fetched.config, fetched.params, fetched.revision) == ({}, PARAMS, COMMIT)
    assert fetched.consolidated is consolidated


async def test_params_are_not_asked_for_where_the_hub_does_not_list_them() -> None:
    hub = FakeHub({MODEL: Repository({"original/params.json": b"{}"})})
    with pytest.raises(ConfigNotFound):
        await hub.client().fetch(MODEL)
    assert not any("params.json" in path for path in hub.paths())


async def test_without_a_list_of_files_params_are_asked_for_once_the_config_is_missing() -> None:
    hub = FakeHub({MODEL: Repository({"params.json": json.dumps(PARAMS).encode()})})
    hub.play("/revision/main", lambda: httpx2.Response(503))
    fetched = await hub.client().fetch(MODEL)
    assert (fetched.params, fetched.consolidated) == (PARAMS, True)


@pytest.mark.parametrize("siblings", [None, {}, "params.json", [7, {"rfilename": 7}, {}]])
async def test_a_list_of_files_that_is_none_is_not_believed(siblings: object) -> None:
    hub = hub_with_model()
    info = {"sha": COMMIT, "siblings": siblings}
    hub.play("/revision/main", lambda: httpx2.Response(200, json=info))
    assert (await hub.client().fetch(MODEL)).params is None


async def test_every_request_carries_the_services_token_and_name() -> None:
    hub = hub_with_model()
    await hub.client().fetch(MODEL)
    assert {request.headers["Authorization"] for request in hub.requests} == {f"Bearer {TOKEN}"}
    assert all(request.headers["User-Agent"].startswith("dryserve/") for request in hub.requests)


async def test_without_a_token_none_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub = hub_with_model()
    await hub.client(token=None).fetch(MODEL)
    assert not any("Authorization" in request.headers for request in hub.requests)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "hub.test",
        "file:///etc",
        "https://user:secret@hub.test",
        "https://hub.test?x=1",
        "https://",
        "https://hub.test:x",
    ],
)
def test_an_endpoint_that_is_no_plain_address_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint") as refusal:
        Endpoint(endpoint)
    assert "secret" not in str(refusal.value)


async def test_a_mirror_may_lie_under_a_path_and_know_no_model_info() -> None:
    requested: list[str] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        requested.append(request.url.path)
        if request.url.path.endswith("/config.json"):
            return httpx2.Response(200, headers={"X-Repo-Commit": COMMIT}, json=LLAMA)
        return httpx2.Response(404)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    client = HubClient(http, endpoint=Endpoint("http://mirror.test:8080/hf/"))
    fetched = await client.fetch(MODEL)
    assert (fetched.config, fetched.revision) == (LLAMA, COMMIT)
    assert requested[:2] == [f"/hf/api/models/{MODEL}/revision/main", f"/hf{CONFIG_AT_MAIN}"]
    assert await client.fetch(MODEL) == fetched
