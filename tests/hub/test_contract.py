"""The fake Hub is one: the Hub's own client library gets the same from it as we do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.hub.errors import (
    HubError,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
)
from service.hub.hub_client import HubClient
from service.hub.transport.endpoint import Endpoint
from service.hub.transport.transfer import hub_http
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    FakeHub,
    Repository,
)
from tests.hub.hub_server import FAULTS, serving

SCRIPT = """
import json, sys
from huggingface_hub import HfApi, hf_hub_download
model, revision = sys.argv[1:]
try:
    info = HfApi().model_info(model, revision=revision, expand=["sha", "gated", "siblings", "safetensors"])
    path = hf_hub_download(model, "config.json", revision=revision)
    files = sorted(sibling.rfilename for sibling in info.siblings)
    print(json.dumps({"sha": info.sha, "files": files, "gated": info.gated, "path": path,
                      "parameters": info.safetensors.parameters, "config": open(path).read()}))
except Exception as error:
    print(json.dumps({"error": type(error).__name__}))
"""


def environment_of(endpoint: str, home: Path) -> dict[str, str]:
    """Return what the Hub's own library takes to be its Hub and its home."""
    return {
        **os.environ,
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
    }


def asked_by_the_hubs_own_library(endpoint: str, home: Path, model: str, revision: str) -> dict[str, Any]:
    environment = environment_of(endpoint, home)
    command = [sys.executable, "-c", SCRIPT, model, revision]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def test_the_hubs_own_library_gets_the_same_bytes(tmp_path: Path) -> None:
    config = json.dumps(LLAMA, indent=2)
    repository = Repository({"config.json": config.encode(), "README.md": b"#"}, parameters={"BF16": 7})
    with serving(FakeHub({MODEL: repository})) as server:
        theirs = asked_by_the_hubs_own_library(server.endpoint, tmp_path, MODEL, "main")
        async with hub_http() as http:
            client = HubClient(http, endpoint=Endpoint(server.endpoint))
            ours = await client.fetch(MODEL, "main")
            await client.close()
    assert theirs["config"] == config
    assert ours.config == json.loads(theirs["config"])
    assert ours.revision == theirs["sha"] == COMMIT
    assert f"snapshots/{COMMIT}/config.json" in theirs["path"]
    assert ours.parameter_counts == theirs["parameters"] == {"BF16": 7}
    assert (theirs["files"], theirs["gated"]) == (["README.md", "config.json"], False)


@pytest.mark.parametrize(
    ("fault", "theirs", "ours"),
    [
        ("missing", "RepositoryNotFoundError", ModelNotFound),
        ("gated", "GatedRepoError", ModelGated),
        ("bad revision", "RevisionNotFoundError", RevisionNotFound),
    ],
)
async def test_the_hubs_own_library_understands_the_same_refusal(
    tmp_path: Path, fault: str, theirs: str, ours: type[HubError]
) -> None:
    with serving(FakeHub()) as server:
        server.fault = FAULTS[fault]
        assert asked_by_the_hubs_own_library(server.endpoint, tmp_path, MODEL, "main") == {"error": theirs}
        async with hub_http() as http:
            client = HubClient(http, endpoint=Endpoint(server.endpoint))
            with pytest.raises(ours):
                await client.fetch(MODEL)
            await client.close()
