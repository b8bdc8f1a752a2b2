"""GGUF files on vLLM: which releases load them, and what their weights take.

Which do: vLLM 0.10.2 to 0.23.0 have model_loader/gguf_loader.py, 0.24.0 has not; `org/name:Q4_K_M` is read by
transformers_utils/utils.py is_remote_gguf since 0.12.0.
"""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.application.models.gguf_checkpoint import gguf_checkpoint
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.cli.main import cli
from service.engines.releases import RELEASES, resolve_release, rules_for
from service.gpus.catalog import gpu_catalog
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import GgufNotPlanned
from service.hub.model_files.fetched_config import FetchedConfig
from service.hub.model_source import ModelSource
from tests.api.plan_bodies import LLAMA_CONFIG
from tests.hub.fake_hub import FakeHub, Repository
from tests.hub.test_weights import gguf, text

NORMS = (2 * 32 + 1) * 4096
MATRICES = 8_030_261_248 - NORMS
"""Elements of Llama 3.1 8B, by its model card's count of parameters."""
FILE_BYTES = MATRICES // 256 * 144 + NORMS * 4
"""All matrices in Q4_K (blocks of 256 elements in 144 bytes), norms in F32."""
TINY_BYTES = 512 * 8 // 256 * 144 + 512 * 4
"""Of the file that `gguf` returns."""


def llama_file() -> bytes:
    tensors = (("matrices", MATRICES, 12), ("norms", NORMS, 0))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)
    return head + b"".join(
        text(name) + struct.pack("<IQIQ", 1, size, kind, 0) for name, size, kind in tensors
    )


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    written = tmp_path / "llama-Q4_K.gguf"
    written.write_bytes(llama_file())
    return written


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        cli, ["check", "--gpu", "rtx-4090-24gb:1", "--format", "json", "--include", "memory", *words]
    )
    return result.exit_code, result.stdout, result.stderr


def memory_of(out: str) -> dict[str, Any]:
    (plan,) = json.loads(out)["plans"]
    memory: dict[str, Any] = plan["recommended"]["memory"]
    return memory


@pytest.mark.parametrize("words", [("{file}",), ("--", "vllm", "serve", "{file}")])
def test_a_file_is_planned_with_the_bytes_of_its_tensors(words: tuple[str, ...], file: Path) -> None:
    line = [word.format(file=file) for word in words]
    code, out, _ = run("--engine-version", "0.23.0", "--max-model-len", "8192", *line)
    weights = memory_of(out)["weights"]
    assert code == 0
    assert weights["low"] <= FILE_BYTES <= weights["high"]
    # An eighth above: outputs that the engine joins are as wide as the widest of them.
    assert weights["high"] < FILE_BYTES * 5 / 4


@pytest.mark.parametrize("release", ["0.24.0", "0.33.0"])
def test_releases_without_its_loader_say_which_has_it(release: str, file: Path) -> None:
    code, _, err = run("--engine-version", release, str(file))
    assert code == 2
    assert "from 0.10.2 to 0.23.0" in err
    assert "--engine-version 0.23.0" in err


def test_blackwell_runs_it_in_float16_alone(file: Path) -> None:
    line = ("--engine-version", "0.22.0", "--gpu", "b200", "--max-model-len", "8192", str(file))
    command = CliRunner().invoke(cli, ["check", "--format", "table", *line])
    assert "torch.bfloat16 is not supported for quantization method gguf" in " ".join(command.stdout.split())
    assert CliRunner().invoke(cli, ["check", "--dtype", "float16", *line]).exit_code == 0


@pytest.mark.parametrize("release", ["0.10.2", "0.19.0", "0.23.0"])
def test_the_flag_alone_converts_nothing(release: str, client: TestClient) -> None:
    body = {
        "config": LLAMA_CONFIG,
        "engine": {"version": release},
        "gpus": ["h100-sxm-80gb"],
        "serve": {"quantization": "gguf"},
        "search": False,
    }
    (plan,) = client.post("/plan", json=body).json()["plans"]
    assert plan["verdict"] == "does_not_start"
    assert "`qweight`" in json.dumps(plan)


def hub_services(**files: bytes) -> PlanServices:
    hub = FakeHub({"acme/tiny": Repository({name.replace("__", "."): body for name, body in files.items()})})
    models = ModelSource(hub.client(), BundledSnapshot(), offline=False)

    def no_plan(_: object) -> Any:  # noqa: ANN401 - never called
        raise AssertionError

    return PlanServices(no_plan, models, BundledSnapshot(), gpu_catalog())


async def fetched(services: PlanServices, model: str, release: str, **fields: Any) -> FetchedConfig | None:  # noqa: ANN401 - members of a body
    body = PlanBody.model_validate({"model": model, **fields})
    return await gguf_checkpoint(body, services, rules_for(resolve_release(release)).gguf)


CONFIG = json.dumps(LLAMA_CONFIG).encode()


async def test_a_quantization_of_a_repository_is_its_config_and_the_files_tensors() -> None:
    services = hub_services(config__json=CONFIG, **{"tiny-Q4_K_M__gguf": gguf()})
    found = await fetched(services, "acme/tiny:Q4_K_M", "0.22.0")
    assert found is not None
    assert (found.id, found.total_parameter_bytes) == ("acme/tiny:Q4_K_M", TINY_BYTES)
    assert found.config["quantization_config"] == {"quant_method": "gguf"}


async def test_a_repository_without_a_config_asks_for_one() -> None:
    services = hub_services(**{"tiny-Q4_K_M__gguf": gguf()})
    with pytest.raises(GgufNotPlanned, match="--config FILE"):
        await fetched(services, "acme/tiny:Q4_K_M", "0.22.0")
    found = await fetched(services, "acme/tiny:Q4_K_M", "0.22.0", config=LLAMA_CONFIG)
    assert found is not None
    assert found.total_parameter_bytes == TINY_BYTES


@pytest.mark.parametrize(
    ("model", "release", "words"),
    [
        ("acme/tiny:Q4_K_M", "0.11.2", "from 0.12.0 to 0.23.0"),
        ("acme/tiny/tiny-Q4_K_M.gguf", "0.22.0", "from 0.12.0 to 0.23.0"),
        ("acme/tiny:Q4_K_M", "0.33.0", "from 0.10.2 to 0.23.0"),
    ],
)
async def test_forms_that_a_release_does_not_read_are_named(model: str, release: str, words: str) -> None:
    with pytest.raises(GgufNotPlanned, match=words):
        await fetched(hub_services(), model, release)


@pytest.mark.parametrize("model", ["acme/tiny", "Qwen/Qwen3-8B"])
async def test_other_models_are_none(model: str) -> None:
    assert await fetched(hub_services(), model, "0.22.0") is None


def test_the_loader_and_the_method_came_and_went_together() -> None:
    for release in RELEASES:
        rules = rules_for(release)
        assert rules.gguf.loads_files == ("gguf" in rules.checkpoints.quantization_methods)
        assert rules.gguf.loads_files or not rules.gguf.by_quantization
