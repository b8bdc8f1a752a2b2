"""Several starts in one text, failures behind any prefix, and what surrounds a log."""

import pytest

from service.startup_log.environment.arguments import command_arguments
from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines

BANNER = "INFO 01-01 00:00:0{} [api_server.py:1] vLLM API server version 0.19.0"
PREFIXES = [
    "",
    "vllm-1  | (EngineCore_DP0 pid=1) ",
    "2026-01-01T00:00:00.000000000Z stderr F ",
    "Aug 19 18:34:27 gpuhost vllm[8727]: (EngineCore pid=8727) ",
    "[rank0]: ",
    "[vllm]: [rank0]: ",
    "(Worker pid=1) (Worker_TP1 pid=1) ",
    "(Worker pid=1) ERROR 01-01 00:00:00 [multiproc_executor.py:1] ",
    "ERROR 12-05 20:24:46 engine.py:366] ",
    "\x1b[1;36m(EngineCore_DP0 pid=1)\x1b[0;0m ",
    "295.4s 290 ",
    "> ",
]
"""Of compose, Kubernetes, journald, torchrun, the engine's processes, Kaggle and a quoted message."""


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("words", ["RuntimeError: gadget failed", "a.b.errors.OutOfGadgets: gadget failed"])
def test_an_unknown_exception_is_shown_behind_any_prefix(prefix: str, words: str) -> None:
    failure = read_log(f"{prefix}{words}").failure

    assert failure is not None
    assert (failure.type, failure.message) == (words.partition(":")[0].rpartition(".")[2], "gadget failed")


@pytest.mark.parametrize(
    "line",
    [
        '    raise ValueError("No gadget")',
        "    except RuntimeError: pass",
        "INFO 01-01 00:00:00 [a.py:1] RuntimeError: ignored",
        "WARNING 01-01 00:00:00 [a.py:1] ImportError: no module",
        'INFO:     127.0.0.1:1 - "POST /v1 HTTP/1.1" 500 Internal Server Error',
    ],
)
def test_what_only_mentions_an_exception_is_no_failure(line: str) -> None:
    assert read_log(line).failure is None


def test_frames_do_not_hide_the_exception_below_them() -> None:
    """A traceback of vLLM 0.19.1, vllm/v1/worker/gpu_worker.py: capture_model is a frame, not the cause."""
    log = read_log(
        '(EngineCore pid=1)   File "gpu_worker.py", line 1, in initialize_from_config\n'
        '(EngineCore pid=1)   File "gpu_model_runner.py", line 1, in capture_model\n'
        "(EngineCore pid=1) torch.AcceleratorError: CUDA error: out of memory"
    )
    assert log.failure is not None
    assert log.failure.cause is not None
    assert (log.failure.cause.name, log.failure.type) == ("out_of_memory", "AcceleratorError")


def test_a_crash_loop_whose_log_is_cut_shows_the_failure() -> None:
    failing = f"{BANNER.format(1)}\nINFO [a.py:1] Starting to load model m...\nKeyError: 'layers.0.x'\n"
    log = read_log(failing * 3 + BANNER.format(2))
    assert (log.starts, log.failed_start) == (4, 3)
    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "weights_do_not_fit_the_class"


def test_a_log_with_its_newest_line_first_is_read_in_reverse() -> None:
    lines = [BANNER.format(0), *(f"INFO 01-01 00:00:{n} [a.py:1] step" for n in range(10, 30))]
    lines.append("ERROR 01-01 00:00:40 [core.py:1] ValueError: No available memory for the cache blocks.")
    log = read_log("\n".join(reversed(lines)))
    assert log.newest_first
    assert log.release == "0.19.0"
    assert log.failure is not None
    assert log.failure.line == 1


def test_a_whole_log_that_stops_while_it_loads_says_so() -> None:
    log = read_log(f"{BANNER.format(1)}\nINFO [a.py:1] Model loading took 1.0 GiB\nINFO [a.py:1] compiled")
    assert log.failure is not None
    assert log.failure.cause is not None
    assert (log.failure.cause.name, log.failure.line) == ("ends_without_a_word", 3)


def test_an_exception_before_a_kill_is_its_reason() -> None:
    assert read_log("RuntimeError: gadget\nKilled").failure.type == "RuntimeError"  # type: ignore[union-attr]
    alone = read_log("Loading weights\nKilled").failure
    assert alone is not None
    assert alone.cause is not None
    assert alone.cause.name == "process_killed"


@pytest.mark.parametrize(
    ("text", "release", "gpu"),
    [
        ("vLLM Version                 : 0.12.0", "0.12.0", ()),
        ("GPU models and configuration : GPU 0: NVIDIA GeForce RTX 5090", None, ("NVIDIA GeForce RTX 5090",)),
        (
            "|   0  NVIDIA GeForce RTX 3090        Off | 00000000:01:00.0 Off |",
            None,
            ("NVIDIA GeForce RTX 3090",),
        ),
        ("image: vllm/vllm-openai:v0.13.0", "0.13.0", ()),
        ("I run vLLM 0.11.0 here", "0.11.0", ()),
    ],
)
def test_what_surrounds_a_log_is_read(text: str, release: str | None, gpu: tuple[str, ...]) -> None:
    around = read_log(text).around
    assert (around.release, around.gpus) == (release, gpu)


@pytest.mark.parametrize(
    "text",
    [
        "docker run --gpus all vllm/vllm-openai:v0.19.0 --model org/m --max-num-seqs 8",
        "docker run -d \\\n>   vllm/vllm-openai:v0.19.0 \\\n>   --model org/m \\\n>   --max-num-seqs 8",
        "$ /usr/local/bin/vllm serve org/m --max-num-seqs 8",
        "uv run vllm serve org/m --max-num-seqs 8",
        "vllm serve org/m\n  --max-num-seqs 8",
        "PS> vllm serve org/m `\n  --max-num-seqs 8",
    ],
)
def test_commands_in_a_text_are_read(text: str) -> None:
    found = command_arguments(read_lines(text))
    assert found is not None
    assert (found.model, found.flags) == ("org/m", {"max_num_seqs": 8})


def test_lines_that_a_terminal_wrapped_are_joined() -> None:
    text = (
        "(EngineCore pid=1) ERROR 01-01 00:00:00 [core.py:1] ValueError: To serve at least one request with "
        "the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available "
        "KV cache memory (4.89 GiB). Based on the available memory, the estimated maximum model length is "
        "35600. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the "
        "engine."
    )
    log = read_log("\n".join(text[at : at + 80] for at in range(0, len(text), 80)))
    assert log.number("est_max_model_len") == 35600
    assert log.number("available_kv_gib") == 4.89
    assert log.failure is not None
    assert log.failure.message.endswith("initializing the engine.")
