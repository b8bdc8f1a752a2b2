"""Failures in a person's words."""

import pytest

from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("words", "needed", "available"),
    [
        ("At 0.85 the KV budget falls short: 9.1 GiB available vs 9.29 GiB needed", 9.29, 9.1),
        ("only 0.13 GiB KV available (needs 0.22)", 0.22, 0.13),
        ("--max-model-len 131072 needs about 4.79 GiB, but only 4.06 GiB are left", 4.79, 4.06),
        ("available: 1.5 GiB, required 2.15 GiB at gpu-memory-utilization 0.9", 2.15, 1.5),
    ],
)
def test_a_shortage_is_known_by_its_two_sizes(words: str, needed: float, available: float) -> None:
    log = read_log(f"it worked last week\n{words}\n")

    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "kv_cache_smaller_than_one_request"
    assert log.failure.paraphrased
    assert (log.failure.line, log.failure.message) == (2, words)
    assert (log.number("kv_needed_gib"), log.number("available_kv_gib")) == (needed, available)


@pytest.mark.parametrize(
    "words",
    [
        "the KV cache needs 2.15 GiB, 9.1 GiB available",
        "the download needs 64.5 GiB, 12.0 GiB are left on the disk",
        "KV cache: 9.1 GiB available",
        "KV cache: 9.1 GiB needed",
    ],
)
def test_other_sizes_are_no_shortage(words: str) -> None:
    assert read_log(words).failure is None


def test_the_engine_s_own_words_come_first() -> None:
    log = read_log("only 0.13 GiB KV available (needs 0.22)\nRuntimeError: CUDA error: device-side assert\n")

    assert log.failure is not None
    assert not log.failure.paraphrased
    assert log.failure.type == "RuntimeError"


def test_a_start_that_serves_did_not_fail() -> None:
    served = "INFO: Application startup complete.\nfp8 KV: 9.1 GiB available vs 9.29 GiB needed with auto\n"

    assert read_log(served).failure is None
