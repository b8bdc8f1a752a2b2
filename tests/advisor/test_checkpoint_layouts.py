"""Sizes of published checkpoints, from the layouts that their names stand for."""

import re
from dataclasses import replace

import pytest

from service.advisor.request.checkpoint_layouts import layout_named_by, named_with_sizes
from service.engines.flags import ServeFlags
from service.units import GIB
from tests.advisor.test_fixes import requested

LINEAR = 64 * 5120 * ((64 + 2 * 8) * 128 + 64 * 128 + 3 * 25_600)
"""Elements of the linear layers of Qwen3-32B (64 layers, 64 and 8 heads of 128, 25,600 wide)."""
VOCABULARY = 2 * 151_936 * 5120
"""Elements of its embedding and its output layer, which stay in 16 bits."""


@pytest.mark.parametrize(
    ("name", "bytes_an_element"),
    [
        ("Qwen/Qwen3-32B-AWQ", 0.5 + 2.5 / 128),
        ("org/Qwen3-32B-awq-4bit", 0.5 + 2.5 / 128),
        ("org/Qwen3-32B-GPTQ-Int4", 0.5 + 2.5 / 128),
        ("RedHatAI/Qwen3-32B-quantized.w4a16", 0.5 + 2 / 128),
        ("RedHatAI/Qwen3-32B-NVFP4A16", 0.5 + 1 / 16),
        ("org/Qwen3-32B-NVFP4", 0.5 + 1 / 16),
        ("Qwen/Qwen3-32B-FP8", 1),
        ("org/Qwen3-32B-INT8", 1),
    ],
)
def test_a_name_gives_the_size(name: str, bytes_an_element: float) -> None:
    request = requested("Qwen/Qwen3-32B", "l40s-48gb", "0.33.0", ServeFlags())
    words = named_with_sizes(replace(request, siblings=(name,)), (name,))
    size = (LINEAR * bytes_an_element + 2 * VOCABULARY) / GIB
    stated = re.search(r"\(about (\d+) GiB of weights\)", words)

    assert stated is not None, words
    assert abs(int(stated[1]) - size) < 0.6


def test_what_is_not_bundled_is_said() -> None:
    request = requested("Qwen/Qwen3-32B", "l40s-48gb", "0.33.0", ServeFlags())
    names = ("org/Qwen3-32B-AWQ", "org/Qwen3-32B-FP8")
    some = replace(request, siblings=names, unbundled=frozenset(names[:1]))

    words = named_with_sizes(some, names)
    assert re.search(r"org/Qwen3-32B-AWQ \([^)]+\)\*, org/Qwen3-32B-FP8 \([^)]+\)\. \*: not bundled", words)
    assert words.count("AWQ") == 1
    assert "not bundled" not in named_with_sizes(replace(some, unbundled=frozenset()), names)


def test_quantized_models_give_no_size_to_their_other_checkpoints() -> None:
    """Checkpoints made of FP8 ones leave other parts as they are than their names tell."""
    request = requested("deepseek-ai/DeepSeek-V3", "h200-sxm-141gb", "0.33.0", ServeFlags())
    assert named_with_sizes(request, ("nvidia/DeepSeek-V3-FP4",)) == "nvidia/DeepSeek-V3-FP4."


@pytest.mark.parametrize("name", ["org/M", "org/M-BF16", "org/AWQ", "org/M-Instruct", "org/M-GGUF"])
def test_other_names_tell_no_layout(name: str) -> None:
    assert layout_named_by(name) is None
