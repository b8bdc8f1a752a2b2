"""Names of quantized checkpoints, as publishers on the Hub write them."""

import pytest

from service.advisor.request.siblings import base_name, siblings_of
from service.hub.bundled.snapshot import BundledSnapshot


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b"),
        ("Qwen/Qwen3-32B-AWQ", "qwen3-32b"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b-instruct"),
        ("nvidia/Qwen3.6-27B-NVFP4", "qwen3.6-27b"),
        ("nvidia/DeepSeek-V3-FP4", "deepseek-v3"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b-instruct"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "meta-llama-3.1-8b-instruct"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia-nemotron-3-nano-30b-a3b"),
        ("Qwen/Qwen3-32B-FP8-Static-PerTensor", "qwen3-32b"),
        ("unsloth/llama-3-8b-bnb-4bit", "llama-3-8b"),
    ],
)
def test_formats_are_no_part_of_the_model(name: str, base: str) -> None:
    assert base_name(name)[0] == base


def test_other_sizes_and_versions_are_other_models() -> None:
    known = ("Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-32B-FP8", "Qwen/Qwen2.5-32B-AWQ", "Qwen/Qwen3-32B-Thinking-FP8")

    assert siblings_of("Qwen/Qwen3-32B", known) == ("Qwen/Qwen3-32B-FP8",)


def test_the_models_own_organization_comes_first() -> None:
    known = ("aaa/Qwen3.6-27B-AWQ", "Qwen/Qwen3.6-27B", "Qwen/Qwen3.6-27B-FP8", "nvidia/Qwen3.6-27B-NVFP4")

    assert siblings_of("Qwen/Qwen3.6-27B", known) == (
        "Qwen/Qwen3.6-27B-FP8",
        "aaa/Qwen3.6-27B-AWQ",
        "nvidia/Qwen3.6-27B-NVFP4",
    )


def test_neither_the_model_itself_nor_a_16_bit_copy_is_one() -> None:
    known = ("org/M-BF16", "org/M", "org/M-FP8", "org/m-fp8")

    assert siblings_of("org/M-FP8", known) == ()
    assert siblings_of("org/M-BF16", known) == ("org/M-FP8", "org/m-fp8")


def test_the_bundled_checkpoints_are_found() -> None:
    found = siblings_of("Qwen/Qwen3-235B-A22B", BundledSnapshot().ids())

    assert {"Qwen/Qwen3-235B-A22B-FP8", "nvidia/Qwen3-235B-A22B-NVFP4"} <= set(found)
