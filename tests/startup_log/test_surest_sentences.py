"""Which sentence of a text shows the cause: its title, the reason that it gives, or any other one."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.prose.kinds_of_texts import TextKind
from service.startup_log.prose.titled_settings import needed_settings, titled_settings
from service.startup_log.text.lines import read_lines

TEXTS = [
    # vllm-project/vllm#57680: a title of slowness; that a measurement is unusable says nothing of the output.
    (
        """[Bug]: Decode throughput drops ~3.3x from 0.26.0 to 0.29.0 on H100

The prompt has 122 tokens, median of 5 repetitions (single measurements are unusable, see below).
""",
        "slower_than_expected",
        1,
    ),
    # AEON-7/vllm-dflash#1: a title of a hang, and the reason below it.
    (
        """# device service blocked on a single card

The memory keeps getting exhausted, causing the server to hang and fail to start.
""",
        "out_of_memory",
        3,
    ),
    # real-absolute-AI/NoisyRollout#9: which memory, in a sentence that says the same failure.
    (
        """# OOM problem

I am still encountering a CPU OOM error with vLLM 0.8.2 directly.
""",
        "out_of_host_memory",
        3,
    ),
    # vllm-project/production-stack#782: what is said to be the problem.
    (
        """# bug: vLLM Router CrashLoopBack error on deployment

The router pod goes into crashLoopBack on deployment.

So the problem is the default memory size for router is not big enough.
""",
        "out_of_host_memory",
        5,
    ),
    # LMCache/LMCache#1003: a title that says only that it crashes, and the part with which the same happens.
    (
        """Crashes when configured with vLLM `0.9.2`

When using LMCache with vLLM `0.9.2` chat completion crashes.
""",
        "kv_connector_failed",
        3,
    ),
    # A title that names the part alone, and the reason below it (huggingface_hub, a gated repository).
    (
        """# Tokenizer fails to load

This happens because huggingface answers 403 forbidden, the model is gated.
""",
        "hub_access_not_granted",
        3,
    ),
    # vllm-project/vllm#42474 and vllm-project/vllm-ascend#2649: a request beyond the context, and no start.
    (
        "[Bug]: vLLM rejects requests when max_tokens exceeds available context instead of clamping",
        "request_refused",
        1,
    ),
    (
        "[Bug]: \u8bf7\u6c42\u957f\u5ea6\u8d85\u8fc7max_model_len\uff0c\u6ca1\u6709\u8fd4\u56de\u4fe1\u606f",
        "request_refused",
        1,
    ),
    # vllm-project/vllm-ascend#8126.
    ("[Performance]: when Concurrency=2, the TTFT of 0.18.0rc1 deteriorates.", "slower_than_expected", 1),
]
"""Texts, what they are about, and the line that shows it."""

OTHERS = [
    # A title that gives the reason: another sentence of the text does not replace it.
    ("# OOM error when loading LoRA adapters\n\nThere was no memory leak before, as far as I see.\n", 1),
    ("# CUDA out of memory with 32k context\n\nThe host has 512 GB of RAM and hangs never.\n", 1),
]


@pytest.mark.parametrize(("text", "cause", "line"), TEXTS)
def test_the_surest_sentence_shows_the_cause(text: str, cause: str, line: int) -> None:
    """A reason below the title, or more exact words for the same failure, come before other sentences."""
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert (failure.cause.name, failure.line) == (cause, line)


@pytest.mark.parametrize(("text", "line"), OTHERS)
def test_a_title_that_gives_the_reason_stays(text: str, line: int) -> None:
    """What the title says is not replaced by words about another thing."""
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert (failure.cause.name, failure.line) == ("out_of_memory", line)


def test_an_announced_reason_is_quoted_from_the_next_sentence() -> None:
    """ray-project/ray#54070: that it was found is no reason; vllm-project/vllm#34641: code below a colon."""
    announced = read_log(
        "# vLLM engine became unhealthy\n\nWith some digging, we also found the root cause of this issue. "
        "The engine was blocked by 1280 requests at once and did not answer the health check in 10 s.\n"
    )
    above_code = read_log(
        "# vLLM crashes on MI300X\n\n## Root Cause\n\nvLLM only checks env vars, not hardware capability:\n\n"
        "```python\nFP4BMM: bool = True\n```\n\nAITER knows that FP4 needs gfx950, and vLLM never asks it.\n"
    )

    assert announced.around.reason is not None
    assert announced.around.reason.words.startswith("The engine was blocked by 1280 requests at once")
    assert above_code.around.reason is not None
    assert above_code.around.reason.words == (
        "vLLM only checks env vars, not hardware capability ... "
        "AITER knows that FP4 needs gfx950, and vLLM never asks it."
    )


UNNAMED = [
    # deepbeepmeep/Wan2GP#1476: a title that complains, of what no cause is known.
    "NVFP4: kernels unavailable; using fallback and plugins safe mode",
]


@pytest.mark.parametrize("title", UNNAMED)
def test_a_title_that_complains_is_quoted_without_a_cause(title: str) -> None:
    """Silence says less than the person's own words."""
    failure = read_log(f"# {title}\n\nI get this message and end up not gaining any performance.\n").failure

    assert failure is not None
    assert failure.cause is None
    assert title in failure.message


def test_a_failure_that_a_person_met_is_quoted() -> None:
    """InftyAI/llmaz#268: a title that says nothing of it, and no cause that is known."""
    failure = read_log(
        "# Backends of popular models\n\n"
        "When I use this one as the backend, there seems to be an error in some part of it.\n"
    ).failure
    none = read_log("# Backends of popular models\n\nI get no error with this one as the backend.\n").failure
    # NanoNets/docext#32: what a change mends is no failure that is left.
    mended = read_log(
        "# fix: update the endpoint\n\nI encountered a recurring error in the web page.\n"
    ).failure

    assert failure is not None
    assert mended is None
    assert (failure.cause, failure.line) == (None, 3)
    assert none is None


def test_a_list_of_what_a_change_does_is_no_failure() -> None:
    """triton-inference-server/triton_cli#61."""
    log = read_log(
        "# Tweak test timeouts to account for testing larger models\n\n"
        "- Improve the verbosity of the tests' log\n"
        "- Increase the timeout of the tests to avoid timing out on models that take longer to download\n"
    )

    assert log.failure is None


def test_a_list_below_a_failure_stays_a_failure() -> None:
    """A title that says what failed is none of a change, whatever its list begins with."""
    log = read_log(
        "# The server hangs with two GPUs\n\n- Use of NCCL_P2P_DISABLE=1 makes no difference\n"
        "- Enabled NCCL_DEBUG=INFO, it shows nothing\n"
    )

    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name in {"worker_hangs", "ranks_hang_in_exchange"}


def test_torch_without_cuda_on_windows_says_that_windows_is_the_reason() -> None:
    """vllm-project/vllm#179; torch, utils/cpp_extension.py prints the folder of CUDA."""
    log = read_log(
        "No CUDA runtime is found, using CUDA_HOME='C:\\Program Files\\NVIDIA\\CUDA\\v11.8\\bin'\n"
    )

    assert log.failure is not None
    assert log.failure.form is not None
    assert "Windows itself" in log.failure.form.means


CASES = [
    # vllm-project/vllm#42363: a case in which it happens too is no reason of an end.
    (
        """[Bug]: the engine crashes with Kimi-K2.6

The session crashes easily when images are involved, and in plan mode too.
""",
        "engine_died_serving",
    ),
    # vllm-project/vllm#24570: the route of a request, and not the class of the model (openai/speech_to_text).
    (
        "[Usage]: Phi-4-multimodal-instruct: Model Does Not Support Transcriptions API Error",
        "route_not_of_this_task",
    ),
    # RFC 9110, 503: a server that answers so is no Hub.
    ("The model outputs 503 after an hour", "server_not_reached"),
    ("Hugging Face model download returns 429 too many requests", "hub_unavailable"),
    # vllm-project/vllm#45591: what does not end, and not the calls.
    (
        "`--override-generation-config` drops `eos_token_id`: tool-calling generation never stops",
        "output_does_not_end",
    ),
    # What is not the reason, and what is.
    (
        "The crash is not due to the memory but because NCCL times out between the ranks",
        "collective_timed_out",
    ),
    # vllm-project/vllm#16671, and a GPU that an image does not find (NVIDIA Container Toolkit).
    ("Having issues installing vllm on an aarch64 computer", "install_failed"),
    ("# Image can not work on WSL2\n\nIt just doesn't recognize the GPU, and runs on.\n", "no_gpu_visible"),
    # vllm-project/vllm#34641: a comment of a script that says what the command printed (aiter's own message).
    (
        """vLLM crashes on MI300X

```bash
vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8
# Error: RuntimeError: MXFP4 quantization is not supported on gfx942
```
""",
        "kernels_not_for_this_amd_gpu",
    ),
]


@pytest.mark.parametrize(("text", "cause"), CASES)
def test_what_is_said_beside_a_failure_is_not_its_cause(text: str, cause: str) -> None:
    """A case, a part of a name, and what a sentence denies are no reasons."""
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


TASKS = "\n".join(
    f"- [ ] {each}"
    for each in (
        "Chunked prefill, not supported today",
        "Prefix caching, to avoid OOM",
        "MTP that crashes is mended",
        "LoRA",
        "FP8 that fails",
    )
)


@pytest.mark.parametrize("title", ["vLLM Plugin Roadmap Q1 2025", "Work of the third quarter"])
def test_a_list_of_tasks_is_a_plan(title: str) -> None:
    """vllm-project/vllm#2681: what is to be done says nothing of a failure."""
    log = read_log(f"# {title}\n\n{TASKS}\n")

    assert log.failure is None
    assert log.around.about is not None
    assert log.around.about.kind is TextKind.PROPOSAL


def test_a_list_of_tasks_below_a_failure_is_one_of_it() -> None:
    """A title that names a failure stays one, whatever list stands below it."""
    failure = read_log(f"# The server crashes with two GPUs\n\n{TASKS}\n").failure

    assert failure is not None


@pytest.mark.parametrize("setting", ["enforce_eager = False", "enforce_eager=False"])
def test_a_setting_of_a_title_keeps_its_value(setting: str) -> None:
    """vllm-project/vllm#2229: a start without `False` is the other one."""
    lines = read_lines(f"# vllm crashed after the engine was loaded if setting {setting} and tp=4")

    assert titled_settings(lines) == (setting,)


@pytest.mark.parametrize(
    ("text", "fails_with", "fails_without"),
    [
        # vllm-project/vllm#8382, #37431, #19693, #16681, shortened
        ("[Bug]: Pixtral fails when limit_mm_per_prompt not set", (), ("limit_mm_per_prompt",)),
        ("Kernels crash on SM121 without CUDA_LAUNCH_BLOCKING=1", (), ("CUDA_LAUNCH_BLOCKING=1",)),
        ("[Bug]: an issue with LoRA\n\nIt starts fine without `--enable-lora`.", ("--enable-lora",), ()),
        ("[Bug]: fails to load\n\nIt works if I remove --tokenizer-mode.", ("--tokenizer-mode",), ()),
        ("[Bug]: the engine crashes\n\nIt only works with `--enforce-eager`.", (), ("--enforce-eager",)),
        ("[Bug]: a hang\n\nIt hangs unless `--enforce-eager` is set.", (), ("--enforce-eager",)),
        ("[Bug]: a hang\n\nIt happens only with --enable-lora.", ("--enable-lora",), ()),
        ("[Bug]: a hang\n\nIt hangs with and without --enforce-eager.", (), ()),
        ("[Bug]: a choice doesn't work when `enable_thinking=False`", ("enable_thinking=False",), ()),
        ("[Bug]: a crash\n\nIt crashes even without --enforce-eager.", (), ()),
    ],
)
def test_a_title_and_what_is_below_it_say_with_or_without_what_it_fails(
    text: str, fails_with: tuple[str, ...], fails_without: tuple[str, ...]
) -> None:
    lines = read_lines(f"{text}\n")

    assert (titled_settings(lines), needed_settings(lines)) == (fails_with, fails_without)
