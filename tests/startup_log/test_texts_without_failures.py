"""Sentences that are about failures and say that none happened: changes, instructions, descriptions."""

import pytest

from service.startup_log.log import read_log

WITHOUT = [
    # Lists of changes, as keepachangelog.com and GitHub's releases have them.
    "Fixed a crash in the engine with LoRA\n",
    "## v0.9.1\n\n- Fixed a crash in the engine with LoRA adapters\n- Improve throughput of FP8 kernels\n",
    "# Changelog\n\n### Fixed\n- Server hangs on startup with tensor parallelism\n- Memory leak\n",
    "Release notes 1.4.0: resolves an issue where vLLM crashes when loading AWQ models on ROCm.\n",
    # A newer driver is not too old.
    "The server restarts after each upgrade of the driver.\n",
    # What is done in case of a failure.
    "It is a small gateway. It restarts the engine when it crashes, and retries what was lost.\n",
    "- Continuous batching\n- Graceful handling of OOM errors\n- Automatic restart when a worker dies\n",
    "To avoid an out-of-memory error in the engine, set --max-model-len 8192.\n",
    "If you have trouble installing vLLM, see the FAQ.\n",
    "For installation problems, open an issue.\n",
    "The health endpoint returns 503 until the model is loaded.\n",
    "The alert fires when the memory limit is reached.\n",
    "The container's memory limit is 32Gi; a pod that exceeds it is evicted.\n",
    "How to handle errors in the client?\n",
    # What got better.
    "With prefix caching the latency improved drastically.\n",
    "vLLM 0.11 brings a 30 % higher throughput, and TTFT drops sharply with chunked prefill.\n",
    "Thanks, upgrading to 0.11.2 fixed the crash for me.\n",
    # npm 10, what it prints of a package that packages of others need
    "npm warn deprecated inflight@1.0.6: This module is not supported, and leaks memory. Do not use it.\n",
]


@pytest.mark.parametrize("text", WITHOUT)
def test_text_that_says_of_no_failure_that_it_happened_has_none(text: str) -> None:
    assert read_log(text).failure is None


def test_a_part_that_a_package_lacks_is_not_the_package() -> None:
    failure = read_log("The vllm module is missing type stubs, so we skip mypy for it.\n").failure

    assert failure is None or failure.cause is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Fixed a crash in the engine, but with LoRA it still fails to load the adapter\n", "adapter_failed"),
        ("vLLM fails to start, the NVIDIA driver is too old\n", "driver_too_old"),
        ("[Bug]: throughput drops sharply with chunked prefill\n", "slower_than_expected"),
        ("[Bug]: the server outputs 503 under load\n", "server_not_reached"),
        ("[Bug]: the pod hits its memory limit, which is too low\n", "out_of_host_memory"),
        ("Trouble installing vLLM on Ubuntu 24.04\n", "install_failed"),
        ("The server dies with OOM after a day, a restart fixes the hang\n", "out_of_memory"),
    ],
)
def test_failure_in_like_words_keeps_its_cause(text: str, cause: str) -> None:
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause
