"""Short notes of people: a row of a table, a sentence in Japanese, and the fix that a person names."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

NOTES = [
    (
        "| Symptom | Fix |\n|---|---|\n| vLLM crashes with `RuntimeError: UVA is not available` | 0.7.3 |\n",
        "pinned_memory_off",
    ),
    (
        "| vLLM crash-loop in Kubernetes | Service links injected `VLLM_PORT=tcp://\u2026` | other name |\n",
        "environment_variable",
    ),
    (
        "`Python.h` \u304c\u7121\u3044\u3002\nvLLM \u304c\u8d77\u52d5\u3057\u306a\u3044\u3002\n",
        "python_headers_missing",
    ),
    (
        "```\nError:\n  vllm: error: argument subparser: invalid choice: 'Qwen/Qwen2.5-7B-Instruct'\n```\n",
        "unknown_argument",
    ),
]


@pytest.mark.parametrize(("text", "cause"), NOTES, ids=[cause for _, cause in NOTES])
def test_short_note_is_read(text: str, cause: str) -> None:
    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == cause


def test_fix_that_a_person_names_is_shown_over_its_lines() -> None:
    text = (
        "vLLM crash-loops with `ValueError: Tokenizer class TokenizersBackend does not exist or is not\n"
        "currently imported`. Fix: point vLLM at the sibling base tokenizer (same\n"
        "Qwen3.6-27B vocab), add\n"
        "`--tokenizer=mmangkad/Qwen3.6-27B-NVFP4` to the compose command.\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "transformers_too_old"
    fix = "Fix: point vLLM at the sibling base tokenizer (same Qwen3.6-27B vocab), add "
    assert [each.words for each in found.works] == [
        f"{fix}`--tokenizer=mmangkad/Qwen3.6-27B-NVFP4` to the compose command."
    ]


def test_chinese_line_says_with_what_it_works() -> None:
    text = (
        "(EngineCore_DP0 pid=1) ERROR 10-10 11:32:51 [core.py:710] RuntimeError: NPU out of memory. "
        "Tried to allocate 11.50 GiB\n\n"
        "\u6362\u62100.9.1\uff0c\u4e0d\u4f1a\u62a5\u9519\uff0c\u4f46\u662f\u901f\u5ea6\u6162\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.works
    assert "0.9.1" in found.works[0].words


def test_heading_of_a_section_is_its_title() -> None:
    text = (
        "## Addendum, 20:34: k10s16 OOMs at warmup; the phase closes\n\n"
        "KV 10 GiB reserved fine and then vLLM died in kernel warmup with 42 MiB free.\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "out_of_memory"


def test_check_of_direct_access_is_not_a_lack_of_gpus() -> None:
    text = (
        "(Worker pid=457) ERROR 09-10 20:00:05 [multiproc_executor.py:898]\n"
        '  File "/usr/lib/python3/vllm/distributed/device_communicators/custom_all_reduce.py", line 39, '
        "in _can_p2p\n    return torch.cuda.can_device_access_peer(\n"
        '  File "/usr/lib/python3/torch/cuda/__init__.py", line 627, in can_device_access_peer\n'
        "AssertionError: Invalid device id\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert (found.cause, "--disable-custom-all-reduce" in found.remedy) == ("peer_access", True)
