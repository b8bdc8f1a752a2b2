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
