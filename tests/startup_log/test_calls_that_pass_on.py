"""Exceptions that passed a call of torch which only calls what it was given."""

import pytest

from service.startup_log.catalogue.origins import innermost_part, likely_origin
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.log import read_log

SITE = "/usr/lib/python3.12/dist-packages"
# torch 2.9, _dynamo/eval_frame.py, nn/modules/module.py, utils/_contextlib.py
OPTIMIZED = Frame(f"{SITE}/torch/_dynamo/eval_frame.py", "compile_wrapper")
MODULE = Frame(f"{SITE}/torch/nn/modules/module.py", "_call_impl")
CONTEXT = Frame(f"{SITE}/torch/utils/_contextlib.py", "decorate_context")
COMPILES = Frame(f"{SITE}/torch/_dynamo/convert_frame.py", "_compile")
# vLLM 0.15.0, model_executor/layers/attention/attention.py and models/qwen3.py
ATTENTION = (
    Frame(f"{SITE}/vllm/model_executor/layers/attention/attention.py", "get_attention_context"),
    Frame(f"{SITE}/vllm/model_executor/layers/attention/attention.py", "unified_attention"),
    MODULE,
    Frame(f"{SITE}/vllm/model_executor/models/qwen3.py", "forward"),
)


def test_a_model_that_runs_as_it_is_written_has_not_failed_in_its_compilation() -> None:
    """Where the backend is eager, dynamo's wrapper only calls the model's own function."""
    origin = likely_origin("KeyError", "0", (*ATTENTION, OPTIMIZED, MODULE))

    assert origin.part == "a step of the attention backend"
    assert origin.cause is not None
    assert origin.cause.name == "engine_fault"


@pytest.mark.parametrize(
    "frames",
    [
        # dynamo traces the model's code
        (*ATTENTION[3:], COMPILES, OPTIMIZED),
        # torch 2.9 takes dynamo's own calls out of an error, so that its wrapper raises it
        (OPTIMIZED, MODULE, *ATTENTION[3:]),
    ],
)
def test_what_dynamo_itself_raises_still_has(frames: tuple[Frame, ...]) -> None:
    assert likely_origin("RuntimeError", "a b c", frames).part == "torch.compile"


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("vllm_gaudi/v1/worker/hpu_model_runner.py", "the model runner of the platform's plugin"),
        ("vllm_spyre/v1/worker/spyre_model_runner.py", "the model runner of the platform's plugin"),
        ("vllm_metal/mlx_cache.py", "the platform's plugin"),
    ],
)
def test_the_plugin_that_raised_is_named_and_not_the_wrapper_around_it(path: str, part: str) -> None:
    """vllm-project/vllm-gaudi, vllm-spyre and vllm-metal: their folders."""
    frames = (Frame(f"/src/{path}", "warmup_model"), CONTEXT, Frame(f"{SITE}/vllm/v1/worker/w.py", "run"))

    assert innermost_part("AssertionError", frames).part == part


def test_pytorch_s_own_function_is_still_pytorch_s() -> None:
    frames = (Frame(f"{SITE}/torch/functional.py", "einsum"), MODULE)

    assert innermost_part("RuntimeError", frames).part == "PyTorch"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # hiyouga/LlamaFactory#10122, and others of the same kind
        ("# vllm启动提示报错 Transformers does not revognize this archtecture", "unknown_architecture"),
        ("# vLLM fails: transformers does not recognise this architechture", "unknown_architecture"),
    ],
)
def test_a_message_that_was_typed_with_wrong_letters_is_known(text: str, cause: str) -> None:
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert (failure.cause.name, failure.paraphrased) == (cause, True)


def test_other_words_are_not_taken_for_a_misspelt_message() -> None:
    failure = read_log("# The server does not recognize this instruction and fails").failure

    assert failure is None or failure.cause is None or failure.cause.name != "unknown_architecture"
