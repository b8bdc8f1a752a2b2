"""What ended an engine, in whole logs of forks, of vendors' builds and of launchers around the engine."""

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"
CORE = "(EngineCore pid=197113) ERROR 07-17 13:44:01 [core.py:1330]"
WORKER = "(Worker_TP1_EP1 pid=141114) ERROR 07-16 19:28:19 [multiproc_executor.py:1007]"


def failure_of(*lines: str) -> Failure:
    failure = read_log("\n".join(lines)).failure
    assert failure is not None
    return failure


def cause_of(*lines: str) -> str:
    cause = failure_of(*lines).cause
    return "" if cause is None else cause.name


def helps(*lines: str) -> str:
    failure = failure_of(*lines)
    assert failure.cause is not None
    return (failure.form or failure.cause).remedy


def frame(path: str, function: str) -> str:
    return f'  File "/e/project1/alint77/vllm/vllm/{path}", line 75, in {function}'


ENDS = (
    "(EngineCore pid=343) WARNING 08-01 01:16:44 [multiproc_executor.py:441] [shutdown] Executor: workers "
    "still running after grace period; sending SIGTERM count=2"
)
CUT_OFF = (
    f"{WORKER} WorkerProc failed to start.",
    f"{WORKER} {HEADER}",
    f"{WORKER} {frame('model_executor/model_loader/weight_utils.py', 'safetensors_weights_iterator')}",
    f"{WORKER} ValueError: could not determine the shape of object type 'torch.storage.UntypedStorage'",
)
PARENT = f"{CORE} Exception: WorkerProc initialization failed due to an exception in a background process."


def test_what_a_worker_raises_when_the_engine_ends_it_is_not_the_root() -> None:
    """alint77/jupiter-glm52-vllm-worklog, phase3-1160084 server.out: another rank was lost without a word."""
    failure = failure_of(ENDS, *CUT_OFF, PARENT)

    assert failure.cause is None
    assert failure.follows


BEGUN = "(EngineCore pid=343) INFO 08-01 01:16:14 [core.py:116] Initializing a V1 LLM engine (v0.23.1) with"
LOADS = (
    "(Worker_TP0 pid=31) INFO 08-01 01:16:32 [gpu_model_runner.py:5248] Starting to load model /models/G..."
)


def test_a_worker_that_logs_no_exception_in_a_whole_log_was_ended_from_outside() -> None:
    """alint77/jupiter-glm52-vllm-worklog, phase3-1161884 server.out, shortened."""
    assert cause_of(BEGUN, LOADS, ENDS, *CUT_OFF, PARENT) == "worker_ended_without_a_word"
    failure = failure_of(LOADS, ENDS, *CUT_OFF, PARENT)
    assert failure.cause is None  # The lines above can hold the exception.


def test_what_a_worker_raises_before_the_engine_ends_the_others_is_the_root() -> None:
    assert cause_of(*CUT_OFF, ENDS, PARENT) == "weights_do_not_fit_the_class"


def test_a_tensor_that_an_operator_does_not_get_is_memory() -> None:
    """alint77/jupiter-glm52-vllm-worklog, baseline/failed-94pct-hbm-server.out, shortened."""
    message = (
        'torch_call_dispatcher( "aten::new_empty", "", stack.data(), TORCH_ABI_VERSION) API call failed at'
    )

    assert "--gpu-memory-utilization" in helps(
        f"{WORKER} WorkerProc hit an exception.",
        f"{WORKER} {HEADER}",
        f"{WORKER} {frame('third_party/flashmla/flash_mla_interface.py', 'flash_mla_with_kvcache')}",
        f"{WORKER} RuntimeError: {message} at /x/torch/include/torch/csrc/stable/ops.h, line 933",
    )


def test_pydantic_only_carries_the_checks_of_the_engine() -> None:
    """alint77/jupiter-glm52-vllm-worklog, phase3-1159878 server.err, shortened."""
    failure = failure_of(
        HEADER,
        frame("engine/arg_utils.py", "create_engine_config"),
        '  File "/x/site-packages/pydantic/_internal/_dataclasses.py", line 121, in __init__',
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        "  Value error, Tiered MoE supports max_num_seqs 1 through 4 [type=value_error]",
    )

    assert failure.form is not None
    assert "in this release" in failure.form.means


def test_a_server_that_is_stopped_before_it_serves_says_what_it_was_doing() -> None:
    """shiroyo-0/ai-agent-train, vllm_server.log, shortened: a script waited for the server only so long."""
    server = "/x/site-packages/vllm/entrypoints/openai/api_server.py"
    text = helps(
        "(APIServer pid=8410) Traceback (most recent call last):",
        '(APIServer pid=8410)   File "/x/lib/python3.14/ssl.py", line 1152, in read',
        f'(APIServer pid=8410)   File "{server}", line 579, in signal_handler',
        "(APIServer pid=8410) KeyboardInterrupt: terminated",
    )

    assert "time limit" in text


@pytest.mark.parametrize(
    "line",
    [
        "OSError: tail is not a local folder and is not a valid model identifier listed on 'https://hf.co'",
        "vllm serve: error: unrecognized arguments: -f /dev/null",
        "vllm: error: argument subparser: invalid choice: 'sleep' (choose from 'chat', 'complete', 'serve')",
    ],
)
def test_a_command_beside_the_entry_point_of_an_image_is_taken_for_arguments(line: str) -> None:
    """docker/Dockerfile of vLLM: ENTRYPOINT ["vllm", "serve"], to which Docker adds the command."""
    assert "--entrypoint" in helps(line)


def test_libnuma_only_warns_where_numactl_ends() -> None:
    """libnuma, numa_warn and numa_error; numactl, numactl.c checkerror."""
    assert read_log("set_mempolicy: Operation not permitted").failure is None
    assert (
        cause_of("set_mempolicy: Operation not permitted", "setting membind: Operation not permitted")
        == "processor_binding"
    )


@pytest.mark.parametrize(
    ("file", "function", "message", "says"),
    [
        (
            *("tpu_inference/layers/vllm/custom_ops/mla_attention.py", "forward"),
            *("AssertionError: kv_a_proj_with_mqa is required when q_lora_rank is None", "was not given"),
        ),
        (
            *("vllm_metal/stt/serve.py", "_extract_input_features"),
            "ValueError: STT request 7 must include input_features or input_audio_features.",
            "vllm_metal",
        ),
        (
            *("tpu_inference/kernels/ragged_paged_attention/v3/kernel_hd64.py", "static_validate_inputs"),
            "ValueError: Expected attention_sink.shape[0]=7 to be equal to q.shape[1]=8 (num_q_heads).",
            "tpu_inference",
        ),
    ],
)
def test_a_check_of_a_plugin_is_named_as_one(file: str, function: str, message: str, says: str) -> None:
    """tpu-inference 0.32.0 and vllm-metal 0.3.0: names of variables in a message are no words of people."""
    failure = failure_of(
        f"{CORE} EngineCore failed to start.",
        f"{CORE} {HEADER}",
        f'{CORE}   File "/x/site-packages/vllm/v1/executor/abstract.py", line 75, in load_model',
        f'{CORE}   File "/x/site-packages/{file}", line 75, in {function}',
        f"{CORE} {message}",
    )

    assert failure.cause is not None
    assert failure.cause.name in {"check_refused", "engine_fault"}
    assert failure.form is not None
    assert says in failure.form.means
