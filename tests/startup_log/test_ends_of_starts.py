"""How starts end whose last lines are no exception: a draft, ranks that wait, a usage, Windows."""

import pytest

from service.application.text.flags_read import flags_read
from service.application.text.headline import headline
from service.explanation.diagnosis import DRAFT_LOADED
from service.explanation.explain import explain
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

WORKER = "(Worker_TP0 pid=811) ERROR 03-11 08:15:14 [multiproc_executor.py:772]"
STARTED = (
    "(APIServer pid=511) INFO 03-11 08:14:01 [api_server.py:1024] vLLM API server version 0.15.1",
    "(Worker_TP0 pid=811) INFO 03-11 08:14:33 [gpu_model_runner.py:4021] Starting to load model m/m...",
    "(Worker_TP0 pid=811) INFO 03-11 08:15:10 [gpu_model_runner.py:4045] Loading drafter model...",
)
LOADED = "(Worker_TP0 pid=811) INFO 03-11 08:15:12 [gpu_model_runner.py:4088] Model loading took 34.1 GiB"
DIED = (
    "(EngineCore_DP0 pid=700) ERROR 03-11 08:15:14 [multiproc_executor.py:246] "
    "Worker proc VllmWorker-1 died unexpectedly, shutting down executor."
)
TRACEBACK = (
    f"{WORKER} Traceback (most recent call last):",
    f'{WORKER}   File "/x/vllm/v1/spec_decode/eagle.py", line 1038, in load_model',
    f'{WORKER}   File "/x/vllm/model_executor/layers/linear.py", line 90, in create_weights',
    f"{WORKER} torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.",
)
WATCHDOG = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, OpType={}, NumelIn=8)"
RETRIES = (
    "[W1206 19:45:43.892069000 TCPStore.cpp:347] [c10d] TCP client failed to connect/validate to host "
    "10.0.0.4:29501 - retrying (try=0, timeout=1800000ms, delay=487ms): Connection refused"
)
USAGE = "usage: api_server.py [-h] [--headless] [--config CONFIG]"


def failure_of(*lines: str) -> Failure | None:
    return read_log("\n".join(lines)).failure


def cause_of(*lines: str) -> str:
    failure = failure_of(*lines)
    return "" if failure is None or failure.cause is None else failure.cause.name


@pytest.mark.parametrize("lines", [(DIED,), TRACEBACK, ()])
def test_what_failed_while_the_draft_was_loaded_says_so(lines: tuple[str, ...]) -> None:
    """vLLM 0.9.0 to 0.33.0, v1/worker/gpu_model_runner.py load_model: the draft is loaded after the model."""
    ending = explain(read_log("\n".join((*STARTED, *lines))), None).ending
    assert ending is not None
    assert DRAFT_LOADED in ending.notes


@pytest.mark.parametrize("lines", [(*STARTED, LOADED, DIED), (*STARTED[:2], DIED)])
def test_what_failed_before_or_after_the_draft_does_not_speak_of_it(lines: tuple[str, ...]) -> None:
    ending = explain(read_log("\n".join(lines)), None).ending
    assert ending is not None
    assert DRAFT_LOADED not in ending.notes


@pytest.mark.parametrize(
    ("heads", "waits", "cause"),
    [
        (("[Rank 3]", "[Rank 0]"), ((41, "ALLREDUCE"), (42, "BROADCAST")), "ranks_diverged"),
        (("[PG 1 Rank 3]", "[PG 1 Rank 0]"), ((41, "ALLREDUCE"), (41, "BROADCAST")), "ranks_diverged"),
        (("[Rank 3]", "[Rank 0]"), ((41, "ALLREDUCE"), (41, "ALLREDUCE")), "collective_timed_out"),
        (
            ("[PG ID 1 PG GUID 2 Rank 3]", "[PG ID 2 PG GUID 9 Rank 0]"),
            ((41, "ALLREDUCE"), (7, "BROADCAST")),
            "collective_timed_out",
        ),
    ],
)
def test_ranks_that_wait_in_different_collectives_diverged(
    heads: tuple[str, str], waits: tuple[tuple[int, str], ...], cause: str
) -> None:
    """PyTorch 2.1 to 2.9, c10d/ProcessGroupNCCL.cpp: each group numbers its own collectives."""
    lines = (
        f"[rank0]:[E312 10:40:15.120 ProcessGroupNCCL.cpp:683] {head} {WATCHDOG.format(*wait)}"
        for head, wait in zip(heads, waits, strict=True)
    )
    assert cause_of(*lines) == cause


def test_a_start_that_asks_for_rank_0_to_the_end_waits_for_it() -> None:
    """PyTorch 2.9, c10d/TCPStore.cpp: a warning for each try, and an error after the last alone."""
    assert cause_of(*STARTED[:1], RETRIES, RETRIES) == "ranks_not_connected"
    failure = failure_of(*STARTED[:1], RETRIES)
    assert failure is not None
    assert failure.form is not None
    assert "rank 0" in failure.form.remedy


def test_a_store_that_was_reached_at_a_later_try_is_none_to_wait_for() -> None:
    assert failure_of(STARTED[0], RETRIES, LOADED.replace("Model loading", "Loading weights")) is None


@pytest.mark.parametrize(
    "lines",
    [
        (USAGE,),
        (USAGE, "                     [--host HOST] [--port PORT]", "                     [--uds UDS]"),
        ("usage: vllm [-h] [-v] {chat,complete,serve,launch,bench} ...", "vllm-1 exited with code 2"),
        ("usage: vllm serve [model_tag] [options]",),
    ],
)
def test_a_usage_without_its_error_is_a_refused_command(lines: tuple[str, ...]) -> None:
    """Python 3.12, argparse.py ArgumentParser.error: prints the usage, then `PROG: error: ...`."""
    assert cause_of(*lines) == "unknown_argument"
    assert read_log("\n".join(lines)).model is None


@pytest.mark.parametrize(
    "lines",
    [
        ("$ vllm serve --help", USAGE),
        ("usage: vllm serve [model_tag] [options]", "", "Launch a local OpenAI-compatible API server."),
        ("usage: train.py [-h] [--lr LR]",),
    ],
)
def test_a_help_text_and_another_program_s_usage_are_no_failure(lines: tuple[str, ...]) -> None:
    assert failure_of(*lines) is None


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            (r"PS D:\llm> vllm serve Qwen/Qwen3-8B", "RuntimeError: Failed to infer device type"),
            "native_windows",
        ),
        ((r"(v) PS C:\llm> pip install vllm", "error: metadata-generation-failed"), "native_windows"),
        (
            (
                r"PS C:\llm> docker run vllm/vllm-openai --model m/m",
                "RuntimeError: Failed to infer device type",
            ),
            "no_gpu_visible",
        ),
        (
            (r"PS C:\llm> ssh gpu01 vllm serve m/m", "RuntimeError: Failed to infer device type"),
            "no_gpu_visible",
        ),
    ],
)
def test_a_prompt_of_powershell_shows_windows(lines: tuple[str, ...], cause: str) -> None:
    """Microsoft, about_Prompts: the built-in prompt is `PS `, the folder and `> `."""
    assert cause_of(*lines) == cause


def test_a_message_that_asks_for_a_report_advises_nothing() -> None:
    """vllm-project/vllm#17306."""
    failure = failure_of(
        "ValueError: Sliding window for some but all layers is not supported. "
        "Please open an issue to discuss this feature."
    )
    assert failure is not None
    assert failure.form is not None
    assert "issue" not in failure.form.remedy


def test_flags_are_said_where_nothing_is_planned() -> None:
    log = read_log(
        "vllm serve m/m --tensor-parallel-size 2 --no-enable-prefix-caching --api-key abc --port 80"
    )
    assert list(flags_read(log)) == [
        "Flags read: --tensor-parallel-size 2 --no-enable-prefix-caching",
        "Read without their values, which no plan takes: --api-key --port",
    ]


def test_a_check_that_says_its_rule_is_not_called_silent() -> None:
    """vLLM 0.21.0, a request whose max_tokens are more than the server allows."""
    frame = 'File "/x/vllm/entrypoints/openai/chat_completion/serving.py", line 9, in create_chat_completion'
    ending = explain(
        read_log(
            "Traceback (most recent call last):\n"
            f"  {frame}\n"
            "vllm.exceptions.VLLMValidationError: max_tokens=8192 cannot be greater than max_model_len=4096. "
            "Please request fewer output tokens."
        ),
        None,
    ).ending
    assert ending is not None
    assert not ending.by_place


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (
            "INFO 07-09 22:46:38 [launcher.py:100] [shutdown] API server: shutdown triggered",
            "a signal stopped",
        ),
        ("INFO:     Finished server process [104559]", "ended in order"),
        ("", "started and serves"),
    ],
)
def test_how_a_server_ended_that_did_not_fail_is_said(end: str, words: str) -> None:
    """uvicorn, server.py; vLLM 0.24.0, entrypoints/launcher.py."""
    log = read_log(f"{STARTED[0]}\nINFO:     Application startup complete.\n{end}")
    assert words in headline(explain(log, None))


def test_an_engine_that_logs_below_was_installed_in_the_end() -> None:
    """Notebooks that try to import the engine, install it and start it."""
    asks = "installing vLLM... ( No module named 'vllm' )"
    assert cause_of(asks) == "vllm_not_installed"
    assert failure_of(asks, STARTED[0]) is None
    assert cause_of(*STARTED, "ModuleNotFoundError: No module named 'vllm'") == "vllm_not_installed"


def test_a_linker_that_does_not_find_the_driver_s_library_fails_a_build_of_flashinfer() -> None:
    """FlashInfer 0.6.11, jit/cpp_ext.py run_ninja; GNU ld 2.38."""
    lines = (
        f"{WORKER} subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/x']' returned non-zero",
        f"{WORKER} RuntimeError: Ninja build failed. Ninja output:",
        f"{WORKER} /usr/bin/ld: cannot find -lcuda: No such file or directory",
        f"{WORKER} ninja: build stopped: subcommand failed.",
    )
    assert cause_of(*STARTED[:1], *lines) == "linker_finds_no_cuda"


def test_a_server_that_restarts_in_order_was_asked_to_stop() -> None:
    """vllm-project/vllm#14675: a title without a reason, above the log of an orderly end."""
    title = "[Bug]: vLLM automatically restarts while using {}\n\n"
    stopped = (
        "INFO 03-12 03:19:03 launcher.py:62] Shutting down FastAPI HTTP server.\nINFO:     Shutting down\n"
    )
    found = read_log(title.format("cortecs/phi-4-FP8-Dynamic") + stopped).failure
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "interrupted"

    other = "[Bug]: the third answer repeats the second one\n\n"
    found = read_log(other + stopped).failure
    assert found is None or found.cause is None or found.cause.name != "interrupted"
