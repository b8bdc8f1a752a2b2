"""The types of GPUs that people mean by the names and the memory that they write."""

import pytest

from service.explanation.log_facts import gpus_of
from service.gpus.catalog import gpu_catalog
from service.startup_log.log import read_log

BEHIND = ": torch.OutOfMemoryError: CUDA out of memory.\n"


@pytest.mark.parametrize(
    ("text", "memory_gb"),
    [
        # NVIDIA's data sheets: memory of cards whose names are those of several
        ("4x A100 80G", {80}),
        ("on A100 (40 GB)", {40}),
        ("8xH100 80GB", {80}),
        ("an H20 with 141GB", {141}),
        ("RTX 5060 Ti 16GB", {16}),
        ("two RTX 6000 Pro (96GB each)", {96}),
        ("8*A800-80G", {80}),
        ("\u5355\u53614090 24G", {24}),
        # Memory of the host is not the card's.
        ("RTX 3090 with 64GB of system RAM", {24}),
        # A card that a tool or a person names in full needs no memory beside it.
        ("works on A100 80GB, fails on RTX 3090", {24}),
        # What is of 40 or of 80 GB stays open.
        ("two A100", set()),
        ("A100 40GB and A100 80GB alike", set()),
        ("A100 with 512GB RAM", set()),
    ],
)
def test_a_card_is_known_by_its_name_and_its_memory(text: str, memory_gb: set[int]) -> None:
    found = gpus_of(read_log(f"{text}{BEHIND}"), gpu_catalog().types)

    assert {gpu.marketing_gb for gpu in found} == memory_gb
