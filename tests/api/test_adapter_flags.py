"""Flags of LoRA adapters without ``--enable-lora``: the engine makes no LoRAConfig of them."""

import pytest
from starlette.testclient import TestClient

BODY = {"model": "Qwen/Qwen3-8B", "gpus": ["l40s"], "search": False}
SIZES = {"max_loras": 4, "max_lora_rank": 64}


@pytest.mark.parametrize("version", ["0.10.2", "0.33.0"])
@pytest.mark.parametrize("enabled", [True, False])
def test_sizes_of_adapters_count_only_where_adapters_are_served(
    client: TestClient, version: str, enabled: bool
) -> None:
    def recommended(serve: dict[str, object]) -> dict[str, object]:
        body = {**BODY, "engine": {"version": version}, "serve": serve}
        found: dict[str, object] = client.post("/v1/plan", json=body).json()["plans"][0]["recommended"]
        return found

    plain, sized = recommended({}), recommended({**SIZES, "enable_lora": enabled})
    said = "--max-loras, --max-lora-rank have no effect without --enable-lora"
    assert any(said in each for each in sized["warnings"]) is not enabled  # type: ignore[attr-defined]
    assert (plain["memory"] == sized["memory"]) is not enabled
