"""What stands in texts and reports no failure: columns of tools, questions, guides, debug records."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.prose.kinds_of_texts import TextKind

LSCPU = (
    "Flags:                 fpu vme de pse tsc msr pae mce cx8 sse sse2 ht syscall nx lm pni avx f16c sse4a"
)
"""util-linux, lscpu.c, of a processor without many flags that have figures, as in vllm-project/vllm#16632."""


@pytest.mark.parametrize(
    "row",
    [
        LSCPU,
        LSCPU.replace(":                 ", ": "),
        "flags\t\t: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov clflush mmx fxsr sse avx",
        "Features        : fp asimd evtstrm aes pmull sha crc32 atomics fphp asimdhp cpuid asimdrdm",
        "Vulnerability Spectre v2:   Mitigation; Full retpoline, a stuck bit of older CPUs without microcode",
    ],
)
def test_a_column_of_lscpu_is_no_sentence(row: str) -> None:
    """Tools list what a machine has; that names no failure (lscpu, /proc/cpuinfo of x86 and of Arm)."""
    assert (
        read_log(f"[Usage]: how to read the speed of a start\n\nPyTorch version: 2.5.1\n{row}\n").failure
        is None
    )


DEBUG = (
    "[renderers/hf.py:128] Traceback (most recent call last):\n"
    '[renderers/hf.py:128] File "/usr/lib/python3/dist-packages/vllm/renderers/hf.py", line 126, in resolve\n'
    "[renderers/hf.py:128] return tokenizer.get_chat_template(chat_template, tools=tools)\n"
    '[renderers/hf.py:128] File "/usr/lib/python3/dist-packages/transformers/tokenization_utils_base.py", '
    "line 1825, in get_chat_template\n"
)
RAISED = "(APIServer pid=1) {} 04-20 15:44:19 [renderers/hf.py:128] "
SAID = "Cannot use chat template functions because tokenizer.chat_template is not set"


def test_a_record_of_debug_whose_level_was_lost_is_none() -> None:
    """The engine writes the level before each line of a record (vLLM 0.33.0, renderers/hf.py)."""
    record = f"{DEBUG}{RAISED}raise ValueError(\n{RAISED}ValueError: {SAID}\n"
    head = "The server is up although I have this\nFailed to load AutoTokenizer chat template for /data/ocr\n"
    assert read_log(head + record.format("DEBUG", "DEBUG")).failure is None
    failure = read_log(record.format("ERROR", "ERROR")).failure
    assert failure is not None
    assert failure.message == SAID


@pytest.mark.parametrize(
    "asked",
    [
        "and when it's enabled, will the inference become slower?",
        "Will the engine crash with two models on one GPU?",
        "So, does it hang at a longer context, or is it only slower than before?",
        "If I pass both flags, would it run out of memory?",
    ],
)
def test_a_question_of_yes_or_no_reports_nothing(asked: str) -> None:
    """What somebody asks has not happened (vllm-project/vllm#4449)."""
    assert read_log(f"[Usage]: what is enforce_eager\n\nvllm 0.4.0\n\n{asked}\n").failure is None


@pytest.mark.parametrize(
    "said",
    [
        "The server hangs at the first request, is it a bug?",
        "With tensor parallel size 2 it runs out of memory, can you help?",
        "The output is garbage with FP8 and does the engine support it?",
    ],
)
def test_what_is_said_before_a_question_counts(said: str) -> None:
    """A sentence can say what failed, and ask then."""
    failure = read_log(f"[Usage]: two GPUs of one kind\n\n{said}\n").failure
    assert failure is not None
    assert failure.cause is not None


GUIDE = (
    "vLLM Won't Start? Every Fix for the Engine Init, CUDA, and OOM Errors\n\n"
    "TL;DR: Most startup failures are one of three things: the cache has no room (No available memory for "
    "the cache blocks), the driver is old (The NVIDIA driver on your system is too old), or a hang at NCCL.\n"
    "Read the last line and know whether it's an OOM problem or a networking hang.\n"
)


@pytest.mark.parametrize(
    "title",
    [
        "",
        "How to debug common vLLM errors on one card",
        "Troubleshooting: crashes and hangs of inference servers",
        "The complete guide to CUDA problems",
    ],
)
def test_a_guide_to_failures_reports_none(title: str) -> None:
    """An article lists what failures have as their cause (dev.to, "vLLM Won't Start? Every Fix")."""
    log = read_log(f"{title}\n\n{GUIDE.partition(chr(10))[2]}" if title else GUIDE)
    assert log.failure is None
    assert log.around.about is not None
    assert log.around.about.kind is TextKind.GUIDE


def test_a_list_of_causes_is_none_of_them() -> None:
    """Without its title too."""
    assert read_log(GUIDE.partition("\n")[2].strip()).failure is None


def test_who_met_a_failure_below_such_a_title_reports_it() -> None:
    """A person can ask how errors are mended that they have."""
    said = "How to fix these errors\n\nI get ValueError: No available memory for the cache blocks.\n"
    failure = read_log(said).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "no_memory_for_cache_blocks"


@pytest.mark.parametrize("bar", ["Rendering prompts", "Adding requests", "Processed prompts"])
def test_the_bars_of_requests_show_that_the_engine_had_started(bar: str) -> None:
    """`LLM.generate` draws them (vLLM 0.3.0 to 0.33.0, entrypoints/llm.py)."""
    log = (
        "INFO 05-05 08:30:04 [core.py:365] init engine (profile, create kv cache, warmup model) took 5.59 s\n"
        f"{bar}:   0%|          | 0/100 [00:00<?, ?it/s]\n"
        'PanicException: ThreadPoolBuildError { message: "Resource temporarily unavailable" }\n'
    )
    failure = read_log(log).failure
    assert failure is not None
    assert failure.serving


def test_what_python_runs_before_the_program_may_fail() -> None:
    """Python 3.12, Lib/site.py execsitecustomize: the error is printed, and the program starts."""
    site = (
        "Error in sitecustomize; set PYTHONVERBOSE for traceback:\n"
        "ModuleNotFoundError: No module named 'wrapt'\n"
    )
    served = (
        "(APIServer pid=1) INFO 11-02 10:00:01 [api_server.py:1977] vLLM API server version 0.30.0\n"
        "(EngineCore_DP0 pid=7) INFO 11-02 10:00:31 [gpu_model_runner.py:3338] Model loading took 2.9 GiB\n"
        "(APIServer pid=1) INFO 11-02 10:01:01 [launcher.py:38] Available routes are:\n"
        "INFO:     Application startup complete.\n"
    )

    assert read_log(site + served).failure is None


def test_values_that_cannot_be_compared_are_no_missing_feature() -> None:
    """Python 3.12, Objects/object.c do_richcompare: `not supported` says nothing of a release."""
    calls = (
        '  File "/venv/vllm/entrypoints/openai/protocol.py", line 677, in check_logprobs\n    logprobs < 0\n'
    )
    said = "TypeError: '<' not supported between instances of 'str' and 'int'\n"
    found = read_log(f"Traceback (most recent call last):\n{calls}{said}").failure

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "request_failed"
