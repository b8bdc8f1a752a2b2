"""A place in the engine is a place: it gives advice only where the message says what is wrong there."""

import pytest

from service.application.text.explanation import render_explanation
from service.application.text.headline import headline
from service.explanation.explain import explain
from service.explanation.explanation_types import Explanation
from service.startup_log.catalogue.origins import FailureOrigin, agrees, origin_of
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"


def frame(path: str, function: str, source: str = "x()") -> str:
    return f'  File "/usr/lib/python3/site-packages/{path}", line 1, in {function}\n    {source}'


def explained(*lines: str) -> Explanation:
    return explain(read_log("\n".join(lines)), None)


BACKEND = ("vllm/v1/attention/backends/some_attn.py", "forward")


@pytest.mark.parametrize(
    ("error", "advised"),
    [
        # The form of vllm-project/vllm#12124: the code of a layer does not fit its caller.
        ("ValueError: too many values to unpack (expected 2)", False),
        ("AttributeError: 'NoneType' object has no attribute 'shape'", False),
        ("AssertionError", False),
        ("NotImplementedError: this attention has no decode for such a cache", True),
    ],
)
def test_another_backend_is_advised_where_the_backend_refuses(error: str, *, advised: bool) -> None:
    explanation = explained(HEADER, frame(*BACKEND), error)
    ending = explanation.ending

    assert ending is not None
    assert ending.by_place is not advised
    assert ("attention-backend" in ending.remedy.partition("leave out")[0]) is advised
    assert ("The message does not say why" in render_explanation(explanation, None, 200)) is not advised


def test_what_a_library_refuses_below_a_check_is_no_refusal_of_the_check() -> None:
    """The form of vllm-project/vllm#14500: a function of torch refuses what a platform gives it."""
    message = "Expected a torch.device with a specified index or an integer, but got:cuda"
    calls = (Frame("torch/cuda/_utils.py", "_get_device_index"), Frame("vllm/config.py", "_verify"))
    origin = origin_of("ValueError", calls)

    assert not agrees("ValueError", message, calls, origin)
    assert agrees("ValueError", message, calls[1:], origin_of("ValueError", calls[1:]))
    assert not agrees("KeyError", "'a b c'", (), FailureOrigin("", None))


def test_a_failure_in_the_title_is_read_where_it_was_raised() -> None:
    """vllm-project/vllm#8432: numpy refuses a row of the block table in a step of the old engine."""
    message = "ValueError: could not broadcast input array from shape (513,) into shape (512,)"
    explanation = explained(
        f"[Bug]: {message}",
        "",
        HEADER,
        frame("vllm/worker/multi_step_model_runner.py", "execute_model"),
        frame("vllm/attention/backends/flash_attn.py", "build", "input_block_tables[i] = block_table"),
        message,
    )
    ending = explanation.ending

    assert ending is not None
    assert (ending.line, ending.cause, ending.by_place) == (8, "block_table_too_short", False)
    assert "--num-scheduler-steps" in ending.remedy


def test_the_same_words_of_numpy_about_an_image_are_no_block_table() -> None:
    """numpy says them of any two arrays."""
    message = "ValueError: could not broadcast input array from shape (3,) into shape (4,)"
    ending = explained(HEADER, frame("some/images.py", "paste"), message).ending

    assert ending is not None
    assert ending.cause != "block_table_too_short"


def test_what_was_handled_comes_before_what_the_device_reports_then() -> None:
    """A device reports at the next call what ran on it before; here that call frees the memory."""
    explanation = explained(
        HEADER,
        frame("vllm/v1/engine/core.py", "run_engine_core"),
        "ValueError: unknown layout of pages 7",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        HEADER,
        frame("torch/cuda/memory.py", "empty_cache"),
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    )
    ending = explanation.ending

    assert ending is not None
    assert (ending.line, ending.message) == (4, "unknown layout of pages 7")


def test_a_traceback_that_shows_no_start_is_not_said_to_be_of_one() -> None:
    error = "KeyError: 'no such state'"
    step = explained(HEADER, frame("vllm/entrypoints/utils.py", "listen_for_disconnect"), error)
    start = explained(HEADER, frame("vllm/engine/llm_engine.py", "from_engine_args"), error)

    assert headline(step).startswith("The text shows a failure on line 4")
    assert headline(start).startswith("The start failed on line 4")


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        # vllm-project/vllm#17620: a tokenizer that the program loaded, where its name is expected
        (
            [
                frame("vllm/config.py", "maybe_pull_model_tokenizer_for_s3"),
                frame("vllm/transformers_utils/utils.py", "is_s3"),
                frame("transformers/tokenization_utils_base.py", "__getattr__"),
                "AttributeError: PreTrainedTokenizerFast has no attribute lower",
            ],
            "object_given_for_a_name",
        ),
        # The form of vllm-project/vllm#14465 with a tokenizer of another class
        (
            [
                frame("vllm/v1/structured_output/__init__.py", "__init__"),
                frame("xgrammar/tokenizer_info.py", "from_huggingface"),
                "AttributeError: 'ChatGLMTokenizer' object has no attribute 'vocab_files_names'",
            ],
            "tokenizer_not_for_grammars",
        ),
        # vllm-project/vllm#16009: torch, _dynamo/exc.py BackendCompilerFailed takes more than a message
        (
            [
                frame("vllm/distributed/device_communicators/shm_broadcast.py", "dequeue"),
                "TypeError: __init__() missing 1 required positional argument: 'inner_exception'",
            ],
            "compile_failed",
        ),
        # vllm-project/vllm#15256
        (
            [
                frame(
                    "vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py",
                    "extract_tool_calls_streaming",
                ),
                "UnboundLocalError: cannot access local variable 'tool_call_portion' where it is not",
            ],
            "tool_call_not_parsed",
        ),
        # vllm-project/vllm#4432: what NCCL answered
        (
            [
                frame("vllm/model_executor/parallel_utils/pynccl.py", "all_reduce", "assert result == 0"),
                "AssertionError",
            ],
            "nccl",
        ),
        # vllm-project/vllm#188: pinned memory of the host, under WSL
        (
            [
                frame("vllm/worker/cache_engine.py", "allocate_cpu_cache", "key_blocks = torch.empty("),
                "RuntimeError: CUDA error: out of memory",
            ],
            "swap_space_too_large",
        ),
        # vllm-project/vllm#7216
        (
            [
                frame("vllm/model_executor/layers/quantization/fp8.py", "process_weights_after_loading"),
                frame(
                    "vllm/model_executor/layers/quantization/utils/marlin_utils.py", "marlin_permute_scales"
                ),
                "RuntimeError: shape '[-1, 32]' is invalid for input of size 1",
            ],
            "quantization_not_supported",
        ),
    ],
)
def test_words_and_place_together_show_the_cause(lines: list[str], cause: str) -> None:
    ending = explained(HEADER, *lines).ending

    assert ending is not None
    assert ending.cause == cause


def test_a_chain_ends_in_what_torch_compile_could_not_do() -> None:
    """vllm-project/vllm#16006: a debugger's KeyError is handled, and torch refuses its code."""
    explanation = explained(
        HEADER,
        frame("_pydevd_sys_monitoring/cython.pyx", "_get_code_line_info"),
        "KeyError: <code object forward at 0x4d452b40>",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        HEADER,
        frame("torch/_dynamo/exc.py", "unimplemented", "raise Unsupported(msg)"),
        "torch._dynamo.exc.Unsupported: generator",
    )
    ending = explanation.ending

    assert ending is not None
    assert (ending.cause, ending.message) == ("compile_failed", "generator")


def test_what_only_a_flag_brings_is_left_out_first() -> None:
    """vllm-project/vllm#17904: the place alone is known, and it is the place of one flag."""
    path = "vllm/worker/multi_step_model_runner.py"
    ending = explained(HEADER, frame(path, "execute_model"), "IndexError: list index out of range").ending

    assert ending is not None
    assert (ending.by_place, "Without --num-scheduler-steps" in ending.remedy) == (True, True)
    # vLLM 0.11.0 has no such folder any more
    assert "first engine (V0)" in ending.means


def test_a_file_that_is_only_imported_gives_no_advice() -> None:
    """The form of vllm-project/vllm#11683: the engine imports connectors that no start uses."""
    error = "AttributeError: partially initialized module 'cv2' has no attribute 'dnn'"
    path = "vllm/distributed/kv_transfer/kv_transfer_agent.py"
    ending = explained(
        HEADER, frame(path, "<module>"), frame("cv2/typing/__init__.py", "<module>"), error
    ).ending

    assert ending is not None
    assert "--kv-transfer-config" not in ending.remedy


def test_a_call_of_collect_env_that_failed_is_no_failure_of_the_engine() -> None:
    """The form of vllm-project/vllm#8881."""
    text = "$ python collect_env.py\npython: can't open file '/me/collect_env.py': [Errno 2] No such file"
    ending = explained(text, HEADER, frame("vllm/core/scheduler.py", "_schedule"), "AssertionError").ending

    assert ending is not None
    assert (ending.cause, ending.line) == ("engine_fault", 6)


NO_FAILURES = [
    # vllm-project/vllm#5552: what a proposal wants to be possible
    "[RFC]: Refactor the worker\n\n- Cannot swap out the control plane, e.g., using NCCL vs CPU messages",
    # vllm-project/vllm#14438: code that a proposal quotes
    '[RFC]: Data for profiling\n\n  raise ValueError(\n    f"At most {limit} items in the same prompt.")',
    # vllm-project/vllm#20362: a sentence that names what a program raises
    "[Misc]: Engines end requests differently\n\nThe generate coroutine will raise asyncio.CancelledError.",
]


@pytest.mark.parametrize("text", NO_FAILURES)
def test_proposals_and_code_are_no_failures(text: str) -> None:
    assert explained(text).ending is None


def test_a_wish_fails_where_it_tells_of_trouble() -> None:
    """The forms of vllm-project/vllm#12834 and #12724."""
    wish = "[Feature]: Make tool_choice optional when --enable-auto-tool-choice is passed"
    trouble = "[Feature]: Support xformers\n\nIt raised an error: the GPU does not support FlashAttention."

    assert explained(wish).ending is None
    assert explained(trouble).ending is not None


def test_an_exception_in_source_has_no_message_yet() -> None:
    """The form of vllm-project/vllm#13671."""
    assert explained('        return f"Error: {str(e)}"').ending is None


def test_an_answer_of_a_worker_that_does_not_come_is_that_of_a_step() -> None:
    """The form of vllm-project/vllm-ascend#3717: only the calls of a step have a time limit."""
    failure = read_log(
        "\n".join(
            (
                HEADER,
                frame("vllm/distributed/device_communicators/shm_broadcast.py", "acquire_read"),
                "TimeoutError",
            )
        )
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "step_timed_out"
