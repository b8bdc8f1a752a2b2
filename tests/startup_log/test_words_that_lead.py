"""What a text says in plain words leads the answer: its title, what a start needs, what mended it.

Texts are short pieces of public reports of 2025 and 2026, with a reader's cause.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

LOGS = Path(__file__).parents[1] / "data" / "logs"
PIECES = tomllib.loads((LOGS / "words_that_lead.toml").read_text(encoding="utf-8"))["piece"]


def found_in(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece["name"])
def test_what_helps_is_of_the_member_that_the_text_names(piece: Mapping[str, str]) -> None:
    found = found_in(piece["text"])

    assert found.cause == piece["cause"]
    assert piece["helps"] in found.remedy
    assert "unless" not in piece or piece["unless"] not in found.remedy


def test_setting_that_the_text_calls_the_resolution_is_not_one_that_failed() -> None:
    """The text begins within a block of code, whose opening was not copied."""
    found = found_in(
        "RuntimeError: UVA is not available\n```\n\nvLLM 0.26.0 defaults to a new model runner.\n\n"
        "**Resolution:** run the V1 model runner, which has no UVA dependency:\n\n"
        "```\nVLLM_USE_V2_MODEL_RUNNER=0\n```\n"
    )

    assert found.cause == "pinned_memory_off"
    assert [each.words for each in found.works] == [
        "Resolution: run the V1 model runner, which has no UVA dependency: VLLM_USE_V2_MODEL_RUNNER=0"
    ]
    assert "VLLM_USE_V2_MODEL_RUNNER=0" in found.remedy
    assert "did not help" not in found.remedy


def test_fix_with_its_command_is_quoted() -> None:
    found = found_in(
        "```text\nRuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n```\n\n"
        "The fix was to disable FlashInfer autotune:\n\n"
        "```bash\nvllm serve M --no-enable-flashinfer-autotune\n```\n"
    )

    assert [each.words for each in found.works] == [
        "The fix was to disable FlashInfer autotune: vllm serve M --no-enable-flashinfer-autotune"
    ]


@pytest.mark.parametrize(
    ("sentence", "quoted"),
    [
        ("Worker rank 1 needs `--headless` - without it, the worker hits an AssertionError.", True),
        ("Without `MAX_JOBS=1`, the first start runs into an OOM of the host.", True),
        ("It crashes even without --enable-prefix-caching, with the same error.", False),
        ("Without --enforce-eager it also works as it should on two GPUs.", False),
        # vllm-project/vllm#15554
        ("The issue does not persist when removing speculative decoding.", True),
        # vllm-project/vllm-ascend#2267: weights load as they should, but memory does not suffice
        (
            (
                "\u4f7f\u75288\u5f20910B\u90e8\u7f72\u6a21\u578b\uff0c\u6743\u91cd\u6b63\u5e38\u52a0\u8f7d"
                "\u4f46\u542f\u52a8\u9636\u6bb5\u663e\u5b58\u4e0d\u8db3\u3002"
            ),
            False,
        ),
        ("Does it fail without `--headless` on your nodes?", False),
    ],
)
def test_what_a_start_needs_is_quoted(sentence: str, quoted: bool) -> None:
    found = found_in(f"vLLM does not start on the second node\n\nRuntimeError: x y z\n\n{sentence}\n")

    assert [each.words for each in found.works] == ([sentence] if quoted else [])


def test_worker_s_own_error_is_asked_for_above_the_wrapper() -> None:
    """vllm-project/vllm#39685."""
    found = found_in(
        "[Bug]: # vLLM v0.19.0 - WorkerProc initialization failed with Tensor Parallelism\n\n```\n"
        "(EngineCore pid=335) ERROR 04-11 22:28:52 [core.py:1108] Exception: WorkerProc initialization "
        "failed due to an exception in a background process. See stack trace for root cause.\n"
        "(EngineCore pid=335) Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in\n'
    )

    assert (found.cause, found.part) == (None, "")
    assert (
        found.message.startswith("WorkerProc initialization failed") or "Exception: Worker" in found.message
    )
    assert "the lines above" in found.wanted


@pytest.mark.parametrize(
    ("sentence", "quoted"),
    [
        ("Cause: pip installed a torch for the CPU alone.", True),
        ("The root cause is an underflow on GPUs with one copy engine.", True),
        ("\u6839\u56e0\u662f GPU \u7684\u9a71\u52a8\u592a\u65e7\u4e86\u3002", True),
        ("I could not find the root cause of this error.", False),
        ("See root cause above, there is nothing else here.", False),
        ("Is the crash due to the driver of this machine?", False),
        ("Reason: DEPLOYMENT_ROLLOUT - Instance started by a deployment.", False),
    ],
)
def test_reason_that_a_person_gives_is_quoted(sentence: str, quoted: bool) -> None:
    found = found_in(f"vLLM does not start here\n\nRuntimeError: x y z\n\n{sentence}\n")

    assert found.notes == ((f"The text says on line 5 why: {sentence}",) if quoted else ())


def test_value_of_a_flag_stays_beside_it() -> None:
    """vLLM 0.33.0, engine/arg_utils.py and platforms/cpu.py."""
    chosen = found_in("ValueError: --kda-prefill-backend=fused is only available on ROCm.\n")
    cache = found_in("ValueError: --kv-cache-dtype fp8 is not supported by MLA attention on CPU.\n")

    assert chosen.remedy.startswith("Leave out --kda-prefill-backend=fused if it is set, or")
    assert cache.remedy.startswith("Leave out --kv-cache-dtype fp8 if it is set, or")


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (
            "--enable-auto-tool-choice --tool-call-parser hermes",
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        ),
        (
            "--trust-remote-code",
            "ValueError: The repository a/b contains custom code which must be executed to load it.",
        ),
    ],
)
def test_flag_that_is_given_is_not_called_absent(flags: str, error: str) -> None:
    given = found_in(f"```\nvllm serve a/b {flags}\n```\n\n{error}\n")
    absent = found_in(f"```\nvllm serve a/b\n```\n\n{error}\n")
    mended = found_in(
        f"{error}\n\nThe fix was to pass what it asks for:\n\n```\nvllm serve a/b {flags}\n```\n"
    )

    assert given.cause == absent.cause == mended.cause
    assert flags.split(maxsplit=1)[0] in given.means
    assert "the one that runs" in given.remedy
    assert flags.split(maxsplit=1)[0] in absent.remedy
    assert "the one that runs" not in absent.remedy + mended.remedy


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ("It was reached via `flashinfer_autotune`.", True),
        (
            "INFO 06-11 10:00:00 [kernel_warmup.py:72] Skipping FlashInfer autotune because it is disabled.",
            False,
        ),
    ],
)
def test_autotuning_that_failed_can_be_left_out(said: str, first: bool) -> None:
    """vLLM 0.33.0, model_executor/warmup/kernel_warmup.py."""
    found = found_in(
        f"RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered\n\n{said}\n"
    )

    assert ("--no-enable-flashinfer-autotune" in found.remedy) is first


def test_kernels_of_linear_layers_are_not_those_of_attention() -> None:
    found = found_in(
        "Traceback (most recent call last):\n"
        '  File "/x/site-packages/flashinfer/gemm/gemm_base.py", line 9, in mm_fp4\n    run()\n'
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )

    assert "--linear-backend" in found.remedy
    assert "--attention-backend" not in found.remedy


@pytest.mark.parametrize(
    ("title", "named"),
    [
        (
            "Crash with --enable-prefix-caching and --kv-cache-dtype fp8",
            "--enable-prefix-caching and --kv-cache-dtype",
        ),
        ("Engine dies when VLLM_USE_FLASHINFER_MOE_FP8=1 is set", "VLLM_USE_FLASHINFER_MOE_FP8=1"),
        ("It fails without --enable-prefix-caching", ""),
        ("Compilation fails with --std=c++20 in build.ninja", ""),
    ],
)
def test_settings_of_a_title_are_named_where_nothing_else_says_why(title: str, named: str) -> None:
    found = found_in(f"[Bug]: {title}\n\nThe log ends so:\n\nIndexError: list index out of range\n")

    assert any(f"The title names {named}:" in each for each in found.notes) is bool(named)
