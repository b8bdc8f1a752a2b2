"""What a shell, a supervisor, another rank or a launcher writes beside an engine that ended."""

import pytest

from service.application.text.headline import headline
from service.explanation.diagnosis import diagnose
from service.explanation.explain import explain
from service.startup_log.log import read_log


def cause_of(text: str) -> str | None:
    failure = read_log(text).failure
    return None if failure is None or failure.cause is None else failure.cause.name


BANNER = "INFO 11-29 10:00:00 [api_server.py:1896] vLLM API server version 0.10.1.1\n"
ANSWERS = 'INFO:     10.0.0.7:60538 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
SERVES = f"{BANNER}INFO:     Application startup complete.\n{ANSWERS}"


@pytest.mark.parametrize(
    "written",
    [
        # GNU bash 5.2, jobs.c: a script's child that a signal ended
        "./serve.sh: line 41:  7214 Killed                  vllm serve Qwen/Qwen3-8B --port 8000",
        # zsh 5.9, jobs.c
        "zsh: killed     vllm serve Qwen/Qwen3-8B",
        # the kernel's word alone, as a terminal shows it: liunian-Jay/MU-GOT#17
        "Killed",
        # systemd 255, src/core/service.c service_sigchld_event
        "Nov 29 11:02:13 gpu01 systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL",
        # supervisord 4.2, supervisor/process.py finish and options.py decode_wait_status
        "2026-11-29 11:02:13,318 WARN exited: vllm (terminated by SIGKILL; not expected)",
        # launchd of macOS 15, as its log shows a service that was ended
        "launchd: [gui/501/ai.vllm] exited due to SIGKILL | sent by kernel, ran for 5012ms",
        # Apple's wait(2) in words of a shell
        "./run.sh: line 3: 411 Killed: 9               vllm serve mlx-community/Qwen3-4B-4bit",
    ],
)
def test_a_process_that_was_killed_after_it_had_served_is_said_to_be(written: str) -> None:
    failure = read_log(f"{SERVES}{written}\n").failure

    assert failure is not None
    assert failure.cause is not None
    assert (failure.cause.name, failure.serving, failure.line) == ("process_killed", True, 4)


@pytest.mark.parametrize(
    "said",
    [
        # what a request asks for is logged too
        "INFO 11-29 10:01:00 [logger.py:39] Received request a-1: prompt: 'He was  killed  there'",
        # vLLM 0.6, executor/multiproc_worker_utils.py, of an engine that ends in order
        "INFO 11-29 10:01:00 [multiproc_worker_utils.py:123] Killing local vLLM worker processes",
    ],
)
def test_other_words_of_killing_are_no_end(said: str) -> None:
    assert read_log(f"{SERVES}{said}\n").failure is None


def test_a_server_that_answers_after_a_process_was_killed_goes_on() -> None:
    """GNU bash 5.2, jobs.c: the job is another one of the same script."""
    killed = "run.sh: line 3:    12 Killed                  tail -f app.log\n"

    assert read_log(f"{SERVES}{killed}{ANSWERS}").failure is None


def test_a_server_that_was_asked_to_stop_and_then_killed_was_stopped() -> None:
    """systemd kills what does not end within TimeoutStopSec."""
    stopped = "INFO 11-29 11:00:00 [launcher.py:80] Shutting down FastAPI HTTP server.\n"
    failure = read_log(f"{SERVES}{stopped}vllm.service: Killing process 411 with signal SIGKILL.\n").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "interrupted"


GONE = """\
INFO 11-29 10:00:01 [ray_utils.py:214] Waiting for creating a placement group of specs for 637 seconds.
ERROR 11-29 10:30:01 [engine.py:389] ValueError: Cannot provide a placement group within 1800 seconds.
RuntimeError: Engine process failed to start. See stack trace for the root cause.
"""
CAME_UP = """\
INFO 11-29 10:10:42 [model_runner.py:1562] Graph capturing finished in 29 secs, took 0.60 GiB
INFO:     Application startup complete.
"""


def test_of_two_programs_in_one_file_the_failure_of_one_is_told_beside_the_other_s_success() -> None:
    """vLLM 0.7.2: the banner of the program that serves stands above the end of the one that does not."""
    log = read_log(f"{BANNER}{GONE}{CAME_UP}")

    assert log.failure is None
    assert log.earlier is not None
    assert log.earlier.cause is not None
    assert log.earlier.cause.name == "ray_cluster_not_ready"


# PyTorch 2.9, TCPStore.cpp; NCCL 2.28, misc/socket.cc ncclSocketShutdown
LOST = (
    "gpu-02:187:293 [0] misc/socket.cc:85 (ncclSocketShutdown) NCCL WARN Call to shutdown failed: "
    "Transport endpoint is not connected\n"
    "[rank1]:[W1129 08:43:35.40 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=46, "
    "addr=[gpu-02]:3693, remote=[::ffff:{store}]:29541): Failed to recv, got 0 bytes. Connection was likely "
    "closed. Did the remote server shutdown or crash?\n"
)
LOADS = "(Worker_TP1 pid=187) INFO 11-29 08:37:39 [gpu_model_runner.py:394] Starting to load model a/b...\n"


def test_a_rank_that_lost_rank_0_on_another_host_is_told_to_look_there() -> None:
    assert cause_of(f"{LOADS}{LOST.format(store='10.1.0.5')}") == "rank_lost"


@pytest.mark.parametrize(
    ("store", "below"),
    [
        ("127.0.0.1", ""),
        ("10.1.0.5", "(Worker_TP1 pid=187) INFO 11-29 08:44:00 [gpu_model_runner.py:9] It goes on\n"),
        (
            "10.1.0.5",
            "(Worker_TP1 pid=187) INFO [multiproc_executor.py:1] Parent process exited, terminating\n",
        ),
    ],
)
def test_a_lost_connection_is_no_failure_where_the_engine_says_more(store: str, below: str) -> None:
    failure = read_log(f"{LOADS}{LOST.format(store=store)}{below}").failure

    assert failure is None or failure.cause is None or failure.cause.name != "rank_lost"


@pytest.mark.parametrize(
    "step",
    [
        "==> Waiting for the server (loads take ~10-15 minutes)",
        "[3/4] Starting vLLM, this takes 10 minutes for large models",
        "--> Starting the model server takes several minutes",
    ],
)
def test_a_launcher_s_step_is_no_complaint_that_a_start_is_slow(step: str) -> None:
    assert read_log(f"==> Launching vllm\n{step}\n  21:46:03  117G available\n").failure is None


def test_a_person_s_own_words_of_a_slow_start_still_are() -> None:
    assert cause_of("# vLLM takes 15 minutes to start with a 7B model") == "start_is_slow"


def test_a_tool_s_usage_error_is_not_why_a_container_ended() -> None:
    """kubectl 1.30, pkg/cmd/cmd.go; the container's own log is not in the text."""
    usage = "Error: flags cannot be placed before plugin name: --kubeconfig"
    pod = "vllm-0   0/1   CrashLoopBackOff   6 (2m ago)   11m"

    assert cause_of(f"{pod}\n{usage}") == "crash_loop"
    alone = read_log(usage).failure
    assert alone is not None
    assert alone.message.startswith("flags cannot be placed")


CUT_WARNING = (
    'ARNING 09-16 10:54:42 [_custom_ops.py:20] Failed to import from vllm._C with ModuleNotFoundError("No '
    "module named 'vllm._C'\")\n"
)
CUT_TRACEBACK = """\
(EngineCore_DP0 pid=555) ERROR 09-16 10:54:47 [core.py:718] EngineCore failed to start.
(EngineCore_DP0 pid=555) ERROR 09-16 10:54:47 [core.py:718] Traceback (most recent call last):
(EngineCore_DP0 pid=555) ERROR 09-16 10:54:47 [core.py:718]   File "/vllm/v1/engine/core.py", line 70, in run
"""


@pytest.mark.parametrize(
    ("platform", "cause"),
    [
        # vllm-ascend, worker/model_runner_v1.py; vllm-gaudi; vLLM 0.19.0, platforms/__init__.py
        ("INFO 09-16 10:54:45 [model_runner_v1.py:2345] Starting to load model /m...\n", None),
        ("INFO 09-16 10:54:45 [__init__.py:219] Platform plugin hpu is activated\n", None),
        ("INFO 09-16 10:54:45 [__init__.py:219] Automatically detected platform tpu.\n", None),
        (
            "INFO 09-16 10:54:45 [__init__.py:219] Automatically detected platform cuda.\n",
            "build_does_not_match",
        ),
    ],
)
def test_compiled_kernels_that_a_platform_does_not_have_explain_no_cut_traceback(
    platform: str, cause: str | None
) -> None:
    failure = read_log(f"{CUT_WARNING}{platform}{CUT_TRACEBACK}").failure

    assert failure is not None
    assert (failure.cause and failure.cause.name) == cause


@pytest.mark.parametrize(
    "stopped",
    [
        # gpustack/gpustack#4300: vLLM 0.10.0, entrypoints/launcher.py
        "INFO 01-19 13:55:01 [launcher.py:80] Shutting down FastAPI HTTP server.\n",
        # vLLM 0.5.4, entrypoints/openai/rpc/server.py and entrypoints/launcher.py
        (
            "INFO 08-15 01:50:29 server.py:209] vLLM ZMQ RPC Server was interrupted.\n"
            "INFO 08-15 01:50:29 launcher.py:45] Gracefully stopping http server\n"
        ),
    ],
)
def test_the_reader_of_a_log_that_ends_in_order_is_told_that_it_was_asked_to_stop(stopped: str) -> None:
    text = (
        "INFO 01-19 13:51:08 [loggers.py:122] Engine 000: Avg prompt throughput: 0.0 tokens/s\n"
        f"{stopped}INFO:     Application shutdown complete.\n"
    )
    log = read_log(text)

    assert (log.failure, log.stopped_on) == (None, 2)
    assert headline(explain(log, None)).startswith("The server was asked to stop on line 2, and did so")


def test_an_allocation_that_fails_beside_free_memory_is_remarked() -> None:
    """pytorch/pytorch#182286 and microsoft/WSL#40401: 3 GiB refused with more than 50 GiB free."""
    said = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of "
    )
    of_free = "95.59 GiB of which {} GiB is free."
    beside = diagnose(read_log(said.format("3.00") + of_free.format("50.12")), None)
    ordinary = diagnose(read_log(said.format("3.00") + of_free.format("2.99")), None)

    assert beside is not None
    assert ordinary is not None
    assert [each.split(":")[0] for each in beside.notes] == [
        "The message names 50.12 GiB as free and asks for 3.00 GiB"
    ]
    assert ordinary.notes == ()
