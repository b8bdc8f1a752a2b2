"""Checkpoints that advice names and that the package has no config of."""

import re

import pytest

from service.advisor.request.checkpoint_layouts import layout_named_by, sibling_named
from service.advisor.request.plan_request import Model
from service.bundled_toml import read_toml
from service.engines.releases import RELEASES
from service.hub.bundled.published_checkpoints import DATA, models_stored_by, published_checkpoints_of
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.model_files.model_ids import check_model_id
from tests.accuracy.oracle import bundled_architecture

ROWS = read_toml("service.hub.bundled", DATA)["checkpoint"]
PUBLISHED = (
    ("predibase/Qwen2.5-32B-Instruct-FP8", "Qwen/Qwen2.5-32B-Instruct", 5 + 4.91 + 4 * 4.88 + 4.91),
    ("RedHatAI/Mistral-7B-Instruct-v0.3-quantized.w4a16", "mistralai/Mistral-7B-Instruct-v0.3", 4.17),
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-70B-Instruct", 72.7),
)
"""Checkpoints, models with the same layers, and GB of their files as their pages list them."""


def test_each_is_named_by_a_public_page() -> None:
    bundled = BundledSnapshot()
    for row in ROWS:
        check_model_id(row["id"])
        assert re.match(r"github [\w.-]+/[\w.-]+|https://", row["source"])
        assert layout_named_by(row["id"]) is not None, row["id"]
        assert bundled.get(row["id"]) is None, "its config is bundled, so it is planned"
    assert len({row["id"].lower() for row in ROWS}) == len(ROWS)


def test_a_model_is_found_in_any_case() -> None:
    found = published_checkpoints_of("QWEN/qwen3-32b")
    assert tuple(found) == ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B-AWQ", "RedHatAI/Qwen3-32B-NVFP4A16")
    assert not published_checkpoints_of("Qwen/Qwen3-32B-AWQ")


@pytest.mark.parametrize(("checkpoint", "model", "gigabytes"), PUBLISHED)
def test_sizes_are_those_of_the_published_files(checkpoint: str, model: str, gigabytes: float) -> None:
    """Pages round to three digits; the files of the 4-bit one hold GPTQ's zero points too, 0.03 GB."""
    sibling = sibling_named(Model(model, None, "bundled", bundled_architecture(model)), checkpoint)
    assert sibling is not None
    assert sibling.weight_bytes(RELEASES[-1]) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_a_checkpoint_leads_to_the_model_whose_weights_it_holds() -> None:
    assert models_stored_by("qwen/QWEN3-32B-AWQ") == ("Qwen/Qwen3-32B",)
    assert models_stored_by("Qwen/Qwen3-32B") == ()
