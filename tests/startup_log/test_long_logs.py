"""Logs of any length and encoding, and logs that are still being written."""

import bz2
import gzip
import lzma
import time
from collections.abc import Callable

import pytest

from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines
from service.startup_log.text.long_logs import MAX_LOG_BYTES, condense, encoding_of
from service.startup_log.watching import LogWatcher

BANNER = "(APIServer pid=1) INFO 01-01 00:00:00 [api_server.py:1] vLLM API server version 0.19.0\n"
SERVED = 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
FAILED = (
    "(EngineCore pid=2) ERROR 01-01 00:00:09 [core.py:1] EngineCore encountered a fatal error.\n"
    "(EngineCore pid=2) ERROR 01-01 00:00:09 [core.py:1] Traceback (most recent call last):\n"
    "(EngineCore pid=2) ERROR 01-01 00:00:09 [core.py:1] torch.AcceleratorError: CUDA error: "
    "an illegal memory access was encountered\n"
)
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"


def test_a_failure_in_the_middle_of_a_long_log_is_found() -> None:
    text = BANNER + READY + SERVED * 40_000 + FAILED + SERVED * 40_000
    log = read_log(condense([text[at : at + 100_000].encode() for at in range(0, len(text), 100_000)]))

    assert log.failure is not None
    assert log.failure.cause is not None
    assert (log.failure.cause.name, log.failure.line) == ("illegal_memory_access", 40_005)
    assert log.failure.serving
    assert log.unread_lines > 50_000
    assert log.lines == 80_005


def test_a_short_log_is_read_whole_in_whatever_pieces_it_comes() -> None:
    text = (BANNER + SERVED * 50 + FAILED).encode()
    whole = condense([text])
    assert condense([text[at : at + 7] for at in range(0, len(text), 7)]) == whole
    assert whole.unread_lines == 0
    assert read_lines(whole) == read_lines(text.decode())


def test_the_longest_log_takes_seconds() -> None:
    piece = (SERVED * 16_000).encode()[: 1 << 20]
    started = time.process_time()
    log = condense([piece] * (MAX_LOG_BYTES // len(piece) + 2))

    assert log.cut
    assert time.process_time() - started < 30


@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_of_windows_are_read(name: str) -> None:
    log = read_log(condense([(BANNER + FAILED).encode(name)]))
    assert log.release == "0.19.0"
    assert log.failure is not None


def test_a_mark_alone_makes_no_other_encoding() -> None:
    assert encoding_of(b"\xff\xfeValueError: x")[0] == "utf-8"


def test_the_steps_of_a_start_are_shown_as_they_come() -> None:
    watcher = LogWatcher()
    lines = [
        BANNER,
        "INFO [gpu_model_runner.py:1] Starting to load model m...\n",
        "INFO [gpu_model_runner.py:1] Model loading took 1.0 GiB\n",
        "INFO [gpu_worker.py:1] Available KV cache memory: 1.0 GiB\n",
        READY,
    ]
    steps = [step.milestone for line in lines for step in watcher.feed(line)]

    assert steps == ["", "loading", "profiling", "cache", "serving"]
    for line in FAILED.splitlines():
        list(watcher.feed(line))
    assert watcher.failing
    failure = read_log(watcher.so_far()).failure
    assert failure is not None
    assert failure.line == 8


def test_a_start_without_a_failure_asks_for_no_explanation() -> None:
    watcher = LogWatcher()
    assert [step.milestone for step in watcher.feed(READY)] == ["serving"]
    assert not watcher.failing


@pytest.mark.parametrize(
    ("pack", "program"), [(gzip.compress, "gzip"), (lzma.compress, "xz"), (bz2.compress, "bzip2")]
)
def test_what_another_program_compressed_is_no_text(pack: Callable[[bytes], bytes], program: str) -> None:
    packed = pack(b"ERROR 10-02 09:14:22 [core.py:843] ValueError: no\n" * 400)
    log = read_log(condense([packed[at : at + 50] for at in range(0, len(packed), 50)]))
    assert log.packed == program
    assert log.failure is None
