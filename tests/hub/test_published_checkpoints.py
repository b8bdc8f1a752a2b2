"""Checkpoints that advice names and that the package has no config of."""

import re

from service.advisor.siblings import is_denser_than_8_bits
from service.bundled_toml import read_toml
from service.hub.model_ids import check_model_id
from service.hub.published_checkpoints import DATA, published_checkpoints_of
from service.hub.snapshot import BundledSnapshot

ROWS = read_toml("service.hub", DATA)["checkpoint"]


def test_each_is_named_by_a_public_page_and_holds_fewer_than_8_bits() -> None:
    bundled = BundledSnapshot()
    for row in ROWS:
        check_model_id(row["id"])
        assert re.match(r"github [\w.-]+/[\w.-]+", row["source"])
        assert is_denser_than_8_bits(row["id"])
        assert bundled.get(row["id"]) is None, "its config is bundled, so it is planned"
    assert len({row["id"].lower() for row in ROWS}) == len(ROWS)


def test_a_model_is_found_in_any_case() -> None:
    found = published_checkpoints_of("QWEN/qwen3-32b")
    assert found == ("Qwen/Qwen3-32B-AWQ", "RedHatAI/Qwen3-32B-NVFP4A16")
    assert published_checkpoints_of("Qwen/Qwen3-32B-AWQ") == ()
