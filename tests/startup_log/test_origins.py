"""Failures whose words are not known: shown with the part of the engine that raised them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.startup_log.catalogue.engine_errors import engine_error
from service.startup_log.catalogue.templates import InvalidTemplate, SentenceIndex
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log


def failure_of(*lines: str) -> Failure:
    failure = read_log("\n".join(lines)).failure
    assert failure is not None
    return failure


def frame(path: str, function: str) -> str:
    return f'{LAST}  File "/opt/lib/python3.12/site-packages/{path}", line 7, in {function}'


LAST = "(EngineCore pid=1) ERROR 01-01 10:00:00 [core.py:1] "
HEADER = f"{LAST}Traceback (most recent call last):"


def test_a_failure_while_weights_load_is_named_by_its_frames() -> None:
    """The innermost frame is torch's, but the exception passed the loading of the weights."""
    failure = failure_of(
        HEADER,
        frame("vllm/v1/worker/gpu_worker.py", "load_model"),
        frame("vllm/model_executor/models/abc.py", "load_weights"),
        frame("torch/nn/modules/module.py", "get_parameter"),
        f"{LAST}RuntimeError: something that no catalogue has",
    )

    assert failure.by_origin
    assert failure.cause is not None
    assert failure.cause.name == "weights_do_not_fit_the_class"
    assert (failure.type, failure.message) == ("RuntimeError", "something that no catalogue has")


def test_a_failure_of_an_open_kind_is_shown_with_its_part() -> None:
    failure = failure_of(
        HEADER,
        frame("vllm/v1/engine/core.py", "run_engine_core"),
        frame("vllm/v1/worker/gpu_model_runner.py", "execute_model"),
        f"{LAST}ValueError: something that no catalogue has",
    )

    assert (failure.cause, failure.origin.part) == (None, "the worker of a rank")
    assert failure.message == "something that no catalogue has"


def test_the_frames_of_another_traceback_do_not_count() -> None:
    failure = failure_of(
        HEADER,
        frame("vllm/model_executor/models/abc.py", "load_weights"),
        HEADER,
        frame("vllm/v1/worker/gpu_model_runner.py", "execute_model"),
        f"{LAST}ValueError: something that no catalogue has",
    )

    assert failure.cause is None


def test_a_traceback_that_is_cut_off_shows_where_it_was() -> None:
    failure = failure_of(HEADER, frame("flashinfer/jit/core.py", "build_and_load"))

    assert failure.cause is not None
    assert (failure.type, failure.cause.name) == ("", "toolchain_missing")


def test_kernels_of_torch_compile_are_triton_s_where_the_traceback_is_cut_off() -> None:
    """A traceback that ends in its exception says more itself."""
    calls = (
        frame("torch/_inductor/async_compile.py", "triton"),
        frame("torch/_inductor/runtime/triton_heuristics.py", "precompile"),
    )
    cut = failure_of(HEADER, *calls)
    whole = failure_of(HEADER, *calls, f"{LAST}AttributeError: something that no catalogue has")

    assert cut.cause is not None
    assert whole.cause is not None
    assert (cut.type, cut.cause.name) == ("", "triton_compile")
    assert (whole.type, whole.cause.name) == ("AttributeError", "compile_failed")


@pytest.mark.parametrize(
    ("type_name", "message", "file"),
    [
        # vllm-project/vllm#20860 and the source of 0.11.0: the words of a user's log, without its traceback.
        (
            "ValueError",
            "num_speculative_tokens was provided but without speculative model.",
            "config/speculative.py",
        ),
        (
            "ValueError",
            "Load format `abc` is not supported",
            "model_executor/model_loader/__init__.py",
        ),
        (
            "RuntimeError",
            "Worker failed with error 'a', please check the stack trace above for the root cause",
            "v1/executor/multiproc_executor.py",
        ),
    ],
)
def test_the_releases_sources_say_where_words_come_from(type_name: str, message: str, file: str) -> None:
    error = engine_error(type_name, message)

    assert error is not None
    assert error.file == file


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        # vllm-project/vllm#24109, of which the traceback was left out.
        (
            "AssertionError: FusedMoE flashinfer kernels are only supported for Llama4",
            "quantization_not_supported",
        ),
        # vllm-project/vllm#50706, a title.
        (
            "fails in profiling: Failed to apply PixtralProcessor on data={'text': '[IMG]'}",
            "multimodal_input_not_processed",
        ),
        # vllm-project/vllm#20855, a title; the words are those of transformers, processing_utils.py.
        (
            "Received a FastProcessor for argument image_processor, but a SlowProcessor was expected",
            "multimodal_input_not_processed",
        ),
        # kserve/kserve#4501: the words of Python, which name no package.
        (
            "TypeError: OpenAIServingChat.__init__() got an unexpected keyword argument 'enable_reasoning'",
            "call_not_known",
        ),
    ],
)
def test_words_alone_show_a_cause(line: str, cause: str) -> None:
    failure = failure_of(line)

    assert failure.cause is not None
    assert failure.cause.name == cause


def test_a_sentence_of_a_library_in_prose_names_its_place() -> None:
    """Words of transformers 4.57, modeling_rope_utils.py _check_received_keys, without their class."""
    failure = failure_of(
        "It stops with Missing required keys in `rope_scaling` for 'rope_type'='yarn': {'factor'}"
    )

    assert failure.cause is not None
    assert failure.cause.name == "model_config_not_read"


def test_an_exception_in_a_destructor_is_no_root() -> None:
    """Lines as in vllm-project/vllm#4114."""
    failure = failure_of(
        "Exception ignored in: <function NCCLCommunicator.__del__ at 0x7f4d8c3212d0>",
        "Traceback (most recent call last):",
        '  File "/opt/lib/python3.10/site-packages/vllm/abc.py", line 264, in __del__',
        "AttributeError: 'NCCLCommunicator' object has no attribute 'comm'",
        "RuntimeError: the true reason",
    )

    assert failure.message == "the true reason"


def test_words_of_python_say_less_than_the_part_that_raised_them() -> None:
    failure = failure_of(
        HEADER,
        frame("vllm/entrypoints/llm.py", "__init__"),
        f"{LAST}TypeError: __init__() got an unexpected keyword argument 'abc'",
    )

    assert failure.cause is not None
    assert failure.cause.name == "unknown_argument"


@pytest.mark.parametrize(
    "message",
    ["", "'a'", "it does not work at all", "name 'x' is not defined", "'NoneType' object is not iterable"],
)
def test_words_that_are_not_the_engine_s_come_from_nowhere(message: str) -> None:
    assert engine_error("ValueError", message) is None


def test_a_heading_is_no_exception() -> None:
    assert read_log("Error:\n\nINFO 01-01 10:00:00 [core.py:1] fine").failure is None


def test_a_warning_of_python_is_no_failure() -> None:
    text = "/opt/lib/torch/x.py:3: UserWarning: CUDA error: out of memory is not supported yet"
    assert read_log(text).failure is None


def test_a_warning_of_torch_s_own_is_no_failure() -> None:
    """A line of zjunlp/KnowLM#42, whose server came up."""
    text = (
        "(Worker pid=166712) [W socket.cpp:601] [c10d] The IPv6 network addresses of (__internal_head__, "
        "13104) cannot be retrieved (gai error: -3 - Temporary failure in name resolution)."
    )
    assert read_log(text).failure is None


WORDS = st.text(alphabet="ab_ '\u00e9", min_size=1, max_size=9)


@given(
    st.lists(st.one_of(WORDS, st.just("abcd")), max_size=6),
    st.lists(WORDS.map(lambda s: f"abcd{s}"), max_size=9),
)
def test_an_index_finds_what_a_search_finds(sentences: list[str], lines: list[str]) -> None:
    """Sentences with an inner word are found anywhere; others where a word begins as they do."""
    for sentence in sentences:
        try:
            index = SentenceIndex([sentence])
        except InvalidTemplate:
            continue
        found = {at for at, _ in index.pairs(lines)}
        assert found <= {at for at, line in enumerate(lines) if sentence in line}
        assert found >= {at for at, line in enumerate(lines) if f" {sentence}" in f" {line}"}


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        # The forms of TORCH_CHECK and TORCH_INTERNAL_ASSERT, c10/util/Exception.h, and of vLLM's csrc.
        (
            'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830',
            "out_of_memory",
        ),
        ("Failed at /workspace/csrc/quantization/abc/abc.cu:12 on a shape", "quantization_not_supported"),
        ('r INTERNAL ASSERT FAILED at "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp":1', "nccl"),
    ],
)
def test_a_file_of_c_in_a_message_names_its_part(message: str, cause: str) -> None:
    failure = failure_of(f"RuntimeError: {message}")

    assert failure.cause is not None
    assert failure.cause.name == cause


def test_an_exception_while_a_library_is_imported_is_one_of_versions() -> None:
    failure = failure_of(
        HEADER,
        frame("transformers/models/abc.py", "<module>"),
        f"{LAST}ValueError: something that no catalogue has",
    )

    assert failure.cause is not None
    assert failure.cause.name == "build_does_not_match"


@pytest.mark.parametrize(
    ("path", "function", "type_name", "cause"),
    [
        # Files of 0.6.6, which later releases moved or removed.
        ("vllm/config.py", "verify_with_parallel_config", "ValueError", "settings_refused"),
        ("vllm/core/block_manager.py", "allocate", "AssertionError", "engine_fault"),
        ("vllm/worker/worker_base.py", "execute_worker", "NotImplementedError", "feature_not_supported"),
        (
            "vllm/attention/backends/xformers.py",
            "forward",
            "NotImplementedError",
            "attention_step_not_written",
        ),
        (
            "vllm/model_executor/weight_utils.py",
            "convert_pyslice_to_tensor",
            "KeyError",
            "weights_do_not_fit_the_class",
        ),
        ("torch_neuronx/xla_impl/trace.py", "trace", "RuntimeError", "neuron_fault"),
    ],
)
def test_files_of_old_releases_have_their_part(path: str, function: str, type_name: str, cause: str) -> None:
    failure = failure_of(HEADER, frame(path, function), f"{LAST}{type_name}: something that no catalogue has")

    assert failure.cause is not None
    assert failure.cause.name == cause
