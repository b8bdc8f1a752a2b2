import pytest
from packaging.version import Version

from service.engines.releases import RELEASES, rules_for
from service.startup_log.log import read_log

STARTED = """\
(APIServer pid=1) INFO 04-22 15:13:39 [utils.py:233] non-default args: {'model': 'org/m', 'max_num_seqs': 8}
(EngineCore pid=2) INFO 04-22 15:13:40 [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: \
model='org/m', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2
(Worker_TP0 pid=3) INFO 04-22 [gpu_model_runner.py:4820] Model loading took 15.17 GiB memory and 1.0 s
(Worker_TP1 pid=4) INFO 04-22 [gpu_model_runner.py:4820] Model loading took 15.19 GiB memory and 1.0 s
(Worker_TP0 pid=3) INFO 04-22 15:14:00 [gpu_worker.py:436] Available KV cache memory: 20.59 GiB
(Worker_TP1 pid=4) INFO 04-22 15:14:00 [gpu_worker.py:436] Available KV cache memory: 20.57 GiB
(EngineCore pid=2) INFO 04-22 15:14:01 [kv_cache_utils.py:1319] GPU KV cache size: 58,672 tokens
(EngineCore pid=2) INFO 04-22 15:14:01 [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per \
request: 7.16x
"""


def test_a_start_is_read() -> None:
    log = read_log(STARTED)

    assert (log.release, log.model, log.flags) == ("0.19.0", "org/m", {"max_num_seqs": 8})
    assert log.resolved["tensor_parallel_size"] == 2
    assert log.flags_logged
    assert log.failure is None
    assert log.milestone == "capture"
    assert log.releases == (Version("0.19.0"), Version("0.19.1"))


def test_of_several_ranks_the_tightest_counts() -> None:
    log = read_log(STARTED)

    assert log.number("available_kv_gib") == 20.57
    assert log.number("model_loading_gib") == 15.19
    assert log.named["available_kv_gib"].line == 6


def test_of_several_starts_the_last_counts() -> None:
    first = (
        "INFO [api_server.py:1] vLLM API server version 0.18.0\nValueError: Free memory on device (1/2 GiB)\n"
    )
    log = read_log(f"{first}INFO [api_server.py:1] vLLM API server version 0.19.0\n{STARTED}")

    assert log.release == "0.19.0"
    assert log.failure is None


@pytest.mark.parametrize(
    ("line", "releases"),
    [
        # vLLM 0.19.0 and 0.19.1 log the size on line 1319 of kv_cache_utils.py, 0.20.0 on 1711.
        ("INFO [kv_cache_utils.py:1319] GPU KV cache size: 8 tokens", ("0.19.0", "0.19.1")),
        ("INFO [v1/core/kv_cache_utils.py:1711] GPU KV cache size: 8 tokens", ("0.20.0",)),
        ("INFO [gpu_worker.py:772] Available KV cache memory: 1.0 GiB", ("0.33.0",)),
        ("INFO [kv_cache_utils.py:7] GPU KV cache size: 8 tokens", ()),
        ("INFO [gpu_worker.py:772] something else", ()),
    ],
)
def test_a_log_that_names_no_release_is_dated_by_its_lines(line: str, releases: tuple[str, ...]) -> None:
    log = read_log(line)

    assert log.release is None
    assert log.releases == tuple(map(Version, releases))


def test_a_chain_of_exceptions_is_told_by_its_root() -> None:
    log = read_log(
        "(Worker pid=485) ERROR 04-22 [multiproc_executor.py:857] ValueError: Free memory on device cuda:1 "
        "(60.87/79.19 GiB) on startup is less than desired GPU memory utilization (0.95, 75.23 GiB).\n"
        "(EngineCore pid=285) Exception: WorkerProc initialization failed due to an exception in a "
        "background process. See stack trace for root cause.\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )

    assert log.failure is not None
    assert log.failure.cause is not None
    assert (log.failure.cause.name, log.failure.type, log.failure.line) == (
        "memory_taken_by_others",
        "ValueError",
        1,
    )
    assert log.number("free_gib") == 60.87
    assert log.number("total_gib") == 79.19


def test_an_exception_of_no_known_cause_is_told_in_its_own_words() -> None:
    log = read_log("KeyError: 'x'\nRuntimeError: Engine core initialization failed. See root cause above.")

    assert log.failure is not None
    assert log.failure.cause is None
    assert (log.failure.type, log.failure.message) == ("KeyError", "'x'")


def test_words_of_a_configuration_error_stand_below_it() -> None:
    log = read_log(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, something about the model [type=value_error]\n"
    )

    assert log.failure is not None
    assert "something about the model" in log.failure.message


def test_a_start_that_serves_has_not_failed() -> None:
    log = read_log("ValueError: early and caught\n(APIServer pid=1) INFO:     Application startup complete.")

    assert log.milestone == "serving"
    assert log.failure is None


def test_an_empty_log_tells_nothing() -> None:
    log = read_log("")

    assert (log.release, log.model, log.readings, log.failure, log.milestone) == (None, None, (), None, "")


@pytest.mark.parametrize(
    "line",
    [
        "GPU KV cache size: 25,200 tokens",
        # On one line since 0.28.0, as vLLM 0.33.0's update_kv_cache_capacity writes it.
        "GPU KV cache size: 25,200 tokens, Maximum concurrency for 131,072 tokens per request: 1.87x",
        "GPU + host KV cache size: 25,200 tokens, Maximum concurrency for 131,072 tokens per request: 1.87x",
    ],
)
def test_the_size_is_read_in_every_releases_words(line: str) -> None:
    assert read_log(line).number("kv_cache_tokens") == 25_200


@pytest.mark.parametrize("release", RELEASES)
def test_our_own_lines_are_read(release: Version) -> None:
    """What a plan says that the release prints is what the log's reader understands."""
    lines = "\n".join(
        line.format(tokens=25_200, length=131_072, concurrency=1.8678)
        for line in rules_for(release).capacity.report_lines
    )
    log = read_log(lines)

    assert log.number("kv_cache_tokens") == 25_200
    assert log.number("max_concurrency_len") == 131_072
    assert log.number("max_concurrency") == 1.87


@pytest.mark.parametrize("release", RELEASES)
def test_the_releases_own_refusals_are_known(release: Version) -> None:
    """The words that the dated rules hold, each of another author than the causes."""
    rules = rules_for(release)
    words = rules.capacity.memory_refusal.format(
        length=4096,
        needed=1.5,
        available=0.5,
        estimate="the estimated maximum model length is 1024.",
        gap=" ",
    )
    failures = [read_log(f"ValueError: {each}").failure for each in (words, rules.capacity.no_memory_refusal)]

    assert [failure and failure.cause and failure.cause.name for failure in failures] == [
        "kv_cache_smaller_than_one_request",
        "no_memory_for_cache_blocks",
    ]


@pytest.mark.parametrize("text", ['os.system("vllm serve ", model)', 'cmd = "vllm serve --model " + model'])
def test_a_piece_of_a_quoted_command_is_no_model(text: str) -> None:
    assert read_log(text).model is None
