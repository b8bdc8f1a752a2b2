"""Titles that say what failed and not why: the answer names the nearest cause, which they do not show."""

import pytest

from service.application.text.headline import headline
from service.explanation.diagnosis import PART_ALONE
from service.explanation.explain import explain
from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("title", "alone"),
    [
        # LMCache/LMCache#651, vllm-project/vllm#11289: the reason stands elsewhere.
        ("[bug] vllm crash with lmcache", True),
        ("[Bug]: v0.6.5 hangs the service when using outlines and guided_choice", True),
        ("[Bug]: Gemma 4 tool calling broken", True),
        # A reason beside what failed.
        ("[Bug]: fp8 is not supported on compute capability 7.5", False),
        ("[Bug]: NIXL connector lost its partner and the transfer failed", False),
        ("[Bug]: tool calls are rendered as text instead of executed", False),
        # The cause itself says that the text names no reason: vllm-project/vllm#23359.
        ("[Bug]: Qwen3 coder 480b awq fails to load on v0.10.1.1", False),
        # What happened needs no reason to be named.
        ("[Bug]: CUDA out of memory error when the model loads", False),
        ("[Bug]: vLLM crashes under load", False),
    ],
)
def test_a_title_without_a_reason_is_said_to_have_none(title: str, alone: bool) -> None:
    found = explain(read_log(f"{title}\n"), None)

    assert found.ending is not None
    assert found.ending.part_alone is alone
    assert found.ending.means.startswith(PART_ALONE) is alone
    assert ("or its reason" in headline(found)) is alone
