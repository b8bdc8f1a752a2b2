"""Requests that a running engine fails at: their exception, and who is at fault."""

import pytest

from service.startup_log.log import read_log

LIBRARY = "/opt/venv/lib/python3.12/site-packages/"
SERVED = (
    "INFO:     Application startup complete.\n"
    'INFO:     10.1.2.3:52001 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n'
    "ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
)


def frame(path: str, function: str, source: str = "return func(*args)") -> str:
    return f'  File "{LIBRARY}{path}", line 17, in {function}\n    {source}\n'


def cause_of(text: str) -> str:
    failure = read_log(text).failure
    assert failure is not None
    return "" if failure.cause is None else failure.cause.name


def test_the_exception_of_a_request_is_found_below_its_answer() -> None:
    """vllm-project/vllm#4317."""
    error = "AttributeError: 'ActorHandle' object has no attribute 'decoding_config'"
    failure = read_log(
        SERVED + frame("vllm/model_executor/guided_decoding/__init__.py", "get_processor") + error
    ).failure

    assert failure is not None
    assert (failure.type, failure.answers) == ("AttributeError", True)
    assert failure.cause is not None
    assert failure.cause.name == "call_not_known"
    form = failure.cause.form_of(failure.message)
    assert form is not None
    assert "--engine-use-ray" in form.remedy


def test_an_answer_without_an_exception_stays_one() -> None:
    assert cause_of(SERVED.partition("ERROR:")[0]) == "request_failed"


@pytest.mark.parametrize(
    ("path", "function", "error", "cause"),
    [
        # vllm-project/vllm#47761: arguments that a client sends back
        (
            "vllm/entrypoints/chat_utils.py",
            "_postprocess_messages",
            "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 13 (char 12)",
            "tool_arguments_not_json",
        ),
        # vllm-project/vllm#16529, vllm-project/vllm#6521 and vllm-project/vllm-metal#331
        (
            "vllm/v1/sample/sampler.py",
            "apply_logits_bias",
            "IndexError: index 191222 is out of bounds for dimension 1 with size 128256",
            "request_not_checked",
        ),
        (
            "vllm/model_executor/layers/sampler.py",
            "_build_sampler_output",
            "AssertionError",
            "request_not_checked",
        ),
        (
            "vllm/entrypoints/openai/completion/serving.py",
            "_create_completion_logprobs",
            "IndexError: list index out of range",
            "request_not_checked",
        ),
        # vllm-project/vllm#10792 and the checks of vLLM 0.33.0, sampling_params.py
        (
            "vllm/engine/llm_engine.py",
            "_create_sequence_group_with_sampling",
            "ValueError: Cannot request more than 20 logprobs.",
            "request_parameter_refused",
        ),
        (
            "vllm/sampling_params.py",
            "_verify_args",
            "vllm.exceptions.VLLMValidationError: min_p must be in [0, 1], got 128.",
            "request_parameter_refused",
        ),
    ],
)
def test_a_request_that_fails(path: str, function: str, error: str, cause: str) -> None:
    assert cause_of(SERVED + frame(path, function) + error) == cause


@pytest.mark.parametrize(
    ("path", "function", "cause"),
    [
        # vllm-project/vllm#44087: the draft of a checkpoint, and its own weights
        ("vllm/model_executor/models/step3p5_mtp.py", "load_weights", "draft_does_not_fit"),
        ("vllm/model_executor/models/step3p5.py", "load_weights", "weights_do_not_fit_the_class"),
    ],
)
def test_weights_of_a_draft_are_its_own(path: str, function: str, cause: str) -> None:
    check = frame("vllm/model_executor/parameter.py", "load_column_parallel_weight", "assert a == b")

    assert (
        cause_of(f"Traceback (most recent call last):\n{frame(path, function)}{check}AssertionError") == cause
    )


def test_a_folder_called_ray_is_not_the_library() -> None:
    """OpenRLHF/OpenRLHF#358."""
    text = (
        '  File "/share/OpenRLHF/openrlhf/trainer/ray/vllm_engine.py", line 120, in <module>\n'
        "    output = ray.get(llm.generate.remote())\n"
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task"
    )

    assert cause_of(text) == "ray_actor_died"


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        # vllm-project/vllm#45540
        ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8", "output_of_quantized_cache"),
        ("vllm serve Qwen/Qwen3-8B", "wrong_output"),
    ],
)
def test_a_quantized_cache_is_suspected_first_of_wrong_output(command: str, cause: str) -> None:
    title = "After some time the model repeats !!!!!!!!!!!! in every answer."

    assert cause_of(f"{title}\n\n{command}\n") == cause


def test_a_kernel_whose_source_refuses_the_settings_lacks_no_compiler() -> None:
    """vllm-project/vllm#33364."""
    built = "RuntimeError: Ninja build failed. Ninja output:\n"
    refused = 'mma_traits_sm90_gmma.hpp: error: static assertion failed with "No eligible GMMA operator"'

    assert cause_of(built + refused) == "kernel_without_these_settings"
    assert cause_of(built) == "toolchain_missing"


def test_an_error_that_a_running_engine_logs_later_is_found() -> None:
    """vllm-project/vllm#17430; the exception is cut off."""
    prefix = "(VllmWorkerProcess pid=24) ERROR 04-30 10:38:21 [multiproc_worker_utils.py:238] "
    call = frame("triton/language/core.py", "dot", "return semantic.dot(input)")
    text = "INFO:     Application startup complete.\n" + "".join(
        f"{prefix}{line}\n" for line in ("Traceback (most recent call last):", *call.splitlines())
    )
    failure = read_log(text).failure

    assert failure is not None
    assert failure.serving
    assert failure.cause is not None
    assert failure.cause.name == "triton_compile"


@pytest.mark.parametrize(
    ("path", "function", "error", "cause"),
    [
        # vllm-project/vllm#31404 and vllm-project/vllm#50454
        (
            "vllm/multimodal/cache.py",
            "get_and_update_item",
            "AssertionError: Expected a cached item for mm_hash='7bd0c1'",
            "media_cache_out_of_step",
        ),
        (
            "vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py",
            "update_state_after_alloc",
            "AssertionError",
            "connector_step_failed",
        ),
    ],
)
def test_a_step_that_fails_is_no_start(path: str, function: str, error: str, cause: str) -> None:
    prefix = "(EngineCore pid=88) ERROR 07-30 10:00:00 [core.py:1142] "
    lines = ("Traceback (most recent call last):", *frame(path, function).splitlines(), error)
    failure = read_log("".join(f"{prefix}{line}\n" for line in lines)).failure

    assert failure is not None
    assert failure.serving
    assert failure.cause is not None
    assert failure.cause.name == cause


def test_a_check_of_another_package_is_no_fault_of_the_engine() -> None:
    """modelscope/ms-swift#1568."""
    package = '  File "/home/d/lib/python3.10/site-packages/{}", line 195, in run_task\n    assert config\n'
    error = "AssertionError: Please provide the eval task config"

    assert cause_of(package.format("llmuses/run.py") + error) == "program_fault"
    assert cause_of(package.format("vllm/v1/engine/core.py") + error) == "engine_fault"


def test_an_error_that_native_code_logs_after_the_start_is_the_engines_end() -> None:
    """PyTorch, c10/util/Logging.cpp: rank, level and date, time, file and line before the message."""
    head = "[rank3]:[E716 19:47:26.324588983 shim_common.cpp:523] "
    started = "INFO:     Application startup complete.\n"
    failure = read_log(
        f"{started}{head}Exception in aoti_torch: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    ).failure

    assert failure is not None
    assert failure.serving
    assert failure.cause is not None
    assert failure.cause.name == "out_of_memory"
    assert (
        read_log(f"{started}[rank3]:[W716 19:47:26.3 shim_common.cpp:523] CUDA out of memory.\n").failure
        is None
    )
    assert read_log(f"{started}{head}the store is slow\n").failure is None
