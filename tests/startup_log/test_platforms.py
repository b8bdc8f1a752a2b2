"""Failures of other platforms than CUDA, of cut tracebacks, and of titles that name code."""

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log


def failure_of(text: str) -> Failure:
    found = read_log(text).failure
    assert found is not None
    return found


def cause_of(text: str) -> str | None:
    found = failure_of(text)
    return None if found.cause is None else found.cause.name


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # HIP, hip_runtime_api.h hipError_t, whose names and texts are those of CUDA
        ("RuntimeError: HIP error: out of memory", "out_of_memory"),
        ("RuntimeError: HIP error: invalid device ordinal", "too_few_gpus"),
        ("RuntimeError: HIP error: no ROCm-capable device is detected", "amd_device_not_visible"),
        ("failed with hipErrorNoBinaryForGpu", "kernels_not_for_this_amd_gpu"),
        ("failed with hipErrorNoDevice", "amd_device_not_visible"),
        ("torch.AcceleratorError: HIP error: device-side assert triggered", "device_side_assert"),
        ("torch.AcceleratorError: HIP error: unspecified launch failure", "rocm_fault"),
        # HabanaAI/vllm-fork#484 and #776
        ("RuntimeError: Graph compile failed. synStatus=synStatus 26 [Generic failure].", "hpu_fault"),
        (
            "ERROR 02-04 12:35:23 engine.py:387] [Rank:0] FATAL ERROR :: MODULE:PT_LAZY Error, no data",
            "hpu_fault",
        ),
        # intel/llm-scaler#65: what Intel's compute runtime prints before it aborts
        (
            "Abort was called at 435 line in file:\n./shared/source/os_interface/linux/drm_neo.cpp",
            "xpu_fault",
        ),
        # vllm-project/vllm#37828 and #41663, titles
        ("[Bug]: Intel ARC 140v not supported as XE2 cutlass kernel", "kernels_not_for_this_intel_gpu"),
        ("[Bug]: XPU TP=2 on two Intel Arc Pro cards: GP fault + xe BCS engine reset", "xpu_fault"),
        # eugr/spark-vllm-docker#143: the message of the kernel's guard
        (
            "This kernel only supports sm120.\ncudaErrorLaunchFailure: unspecified launch failure",
            "no_kernels_for_this_gpu",
        ),
        # vllm-project/vllm#4542, a title
        ("[Installation]: vLLM does not work on old CPU", "cpu_without_instructions"),
        # dusty-nv/jetson-containers#800, a title with an abbreviation
        ("# System freezes and reboots while running vLLM Cont. on Jetson Orin Nano", "out_of_host_memory"),
        # spark-arena/sparkrun#220: a message over three lines
        (
            "RuntimeError: Assertion error (parser.hpp:69):\nFailed to open: /a/\ndeep_gemm/impls/sm121.cuh",
            "deep_gemm",
        ),
        # ray-project/ray-llm#143: Ray Serve, deployment_state.py
        (
            '{"message": "1 replicas that have taken more than 30s to be scheduled. Required: 1"}',
            "ray_cluster_not_ready",
        ),
        # gpustack/gpustack#2259 and #4312, titles
        ("Its results do not meet being divisible by the number of attention heads", "heads_do_not_divide"),
        ("Instance fails to start: port conflict with VLLM_PORT of another instance", "address_in_use"),
        # vllm-project/vllm#2731, a title: requests that are pending are no pods
        ("vLLM getting stuck. Nothing is generated while requests are running and pending.", "worker_hangs"),
        # vllm-project/vllm#42808, the words of its title
        (
            "[Bug]: 原因是 MTP 推测解码的兼容性问题 触发断言错误",
            "speculative_settings",
        ),
    ],
)
def test_a_failure_of_a_platform_is_named(text: str, cause: str) -> None:
    assert cause_of(text) == cause


FRAME = '  File "/opt/lib/python3.12/site-packages/vllm/{}", line {}, in {}\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#32575: cut at the call of a kernel of Triton
        (
            FRAME.format("vllm_flash_attn/ops/triton/rotary.py", 203, "apply_rotary")
            + "    rotary_kernel[grid](",
            "triton_compile",
        ),
        # vllm-project/vllm#18730: cut inside of the compiler's own calls
        (
            FRAME.format("compilation/backends.py", 265, "call_module") + "    compiler_manager.compile(",
            "compile_failed",
        ),
        # vllm-project/vllm#15687
        (
            FRAME.format("executor/ray_distributed_executor.py", 395, "_init_workers_ray")
            + '    self._run_workers("init_device")',
            "ray_actor_died",
        ),
        # xorbitsai/inference#3716: cut inside of the function's name, which the line above has
        (
            FRAME.format("worker/worker.py", 186, "init_device")
            + "    init_worker_distributed_environment(self.vllm_config, self.rank,\n"
            + '  File "/opt/vllm/worker/worker.py", line 525, in init_worker_distributed_environme',
            "nccl",
        ),
    ],
)
def test_a_cut_traceback_says_what_was_called(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_the_rest_of_a_level_is_no_exception() -> None:
    """HabanaAI/vllm-fork#2134: the text ends inside of its next line's `ERROR`."""
    line = "ERROR 11-12 10:29:35 [a.py:1]" + FRAME.format("engine/multiprocessing/client.py", 679, "_process")
    found = failure_of(f"{line}ERROR 11-12 10:29:35 [a.py:1]     raise request_output\nE")

    assert found.type == ""


def test_a_warning_explains_what_a_person_only_complains_of() -> None:
    """modelscope/ms-swift#5947: vLLM's own warning, below a title without a reason."""
    warning = "WARNING 09-25 09:08:19 [_custom_ops.py:21] Failed to import from vllm._C with ImportError('a')"

    assert cause_of(f"[Bug]: the rollout fails to start\n\n{warning}\n") == "build_does_not_match"
    assert read_log(warning).failure is None


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        # vllm-project/vllm#43884
        (
            "[Bug]: EngineCore crash: AssertionError in offloading_connector during an update",
            "kv_connector_failed",
        ),
        ("[Bug]: KeyError in GPUModelRunner after a while", "engine_fault"),
        ("[Bug]: it dies in my_module", "engine_died_serving"),
    ],
)
def test_a_title_can_name_the_code_that_failed(title: str, cause: str) -> None:
    text = f"{title}\n\nERROR 05-27 18:56:31 [core.py:1142] EngineCore encountered a fatal error.\n"

    assert cause_of(text) == cause


def test_a_reason_that_a_person_gives_says_more_than_the_place() -> None:
    """vllm-project/vllm#9728: the error of Python only follows from what the text explains."""
    raised = (
        "Traceback (most recent call last):\n"
        + FRAME.format("utils.py", 799, "current_memory_usage")
        + "UnboundLocalError: cannot access local variable 'mem' where it is not associated with a value\n"
    )
    reason = (
        "I have traced this to the root cause. NVML is not supported on this board, so that it cannot work.\n"
    )

    assert cause_of(raised) == "engine_fault"
    assert cause_of(f"{raised}\n{reason}") not in {"engine_fault", None}


def test_the_source_below_a_frame_is_not_said() -> None:
    """vllm-project/vllm#18916: a line of code has the words of another failure; its own is below."""
    frame = FRAME.format("_custom_ops.py", 677, "cutlass_scaled_mm")
    text = f"{frame}    torch.ops._C.cutlass_scaled_mm(out, a, b)\nRuntimeError: Error Internal\n"

    assert cause_of(text) == "quantization_not_supported"
    assert cause_of("The attribute of torch.ops._C is absent") == "build_does_not_match"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#41848 and #17047, titles
        ("[Bug]: ValueError when CUDA_VISIBLE_DEVICES is a MIG device UUID", "device_name_not_a_number"),
        ("[Bug]: ValueError when using Multi-Instance GPU", "device_name_not_a_number"),
        # vllm-project/vllm#31884 and gpustack/gpustack#6019, titles
        ("[Bug]: a model on 2 nodes with DP failed zmq.error.ZMQError", "ranks_not_connected"),
        ("# Multi-node startup failure due to ZMQ port collision", "address_in_use"),
        # vllm-project/vllm#26769, a title
        ("[Bug]: failed to start, a worker process dying unexpectedly after loading", "engine_died_serving"),
        # vllm-project/vllm#43611: a limit of time is no probe of Kubernetes
        (
            "# Make the liveness timeout longer\n\n# raises `DP Coordinator failed to report ZMQ addresses`",
            "start_timed_out",
        ),
        # OpenRLHF/OpenRLHF#741: each clause says one thing
        ("\u60a8\u597d\n\n重新安装了依赖\uff0c发生了LLMRayActor初始化失败的问题。", "ray_actor_died"),
        # nlzy/vllm-gfx906#15: a worker that was asked to end says nothing
        (
            "(W pid=4) SystemExit: \nERROR 07-13 22:37:27 [a.py:1] Worker W died unexpectedly, shutting down",
            "engine_died_serving",
        ),
    ],
)
def test_what_a_title_says_of_devices_and_ranks(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_a_form_of_collect_env_is_no_complaint() -> None:
    assert read_log("My setup\n\nGCC version                  : Could not collect\n").failure is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#6145: executor/multiproc_worker_utils.py of 0.5
        ("ERROR 07-04 23:20:01 a.py:1] Worker W pid 3283517 died, exit code: -15", "engine_died_serving"),
        # vllm-project/vllm#25368 and #7699, titles without a reason; what ends at its start has not served
        ("[Bug]: vLLM Worker Process Crash with Qwen3-Next when enabling it", "engine_died_serving"),
        ("[Bug]: vLLM inconsistently crashes on startup for multinode cluster", None),
        ("vLLM pod crashed after helm chart installation", "crash_loop"),
        # vllm-project/vllm#18362: the store by which ranks meet
        ("The server alternates between errors: [c10d] TCP client failed to connect", "ranks_not_connected"),
        # TheTom/vllm-swift#10
        ("# MLX error: Failed to load the default metallib. It is not supported", "apple_not_supported"),
        # LMCache/LMCache#779: an adapter of another kind than LoRA's
        ("# It crashes during KV cache storage, the LMCache adapter fails", "kv_connector_failed"),
        # vllm-project/vllm#39863: a server that answers health checks is no probe that fails
        ("# Its core hangs while the server still responds to health checks", "worker_hangs"),
    ],
)
def test_what_dies_without_a_reason_is_told_apart(text: str, cause: str | None) -> None:
    assert cause_of(text) == cause


def test_the_traceback_of_a_worker_says_more_than_the_core_s() -> None:
    """vllm-project/vllm#15255: both are cut, and the core only waits for the worker."""
    worker = FRAME.format("distributed/communication_op.py", 19, "tensor_model_parallel_all_gather")
    core = FRAME.format("v1/engine/core.py", 62, "__init__")

    assert (
        cause_of(f"{worker}EngineCore hit an exception: Traceback (most recent call last):\n{core}") == "nccl"
    )


def test_what_nccl_looks_for_is_no_failure() -> None:
    """vllm-project/vllm#12292: NCCL tells of a plugin that few have, and goes on."""
    line = (
        "INFO 01-21 17:23:12 a.py:63] NCCL INFO NET/Plugin : libnccl-net.so: cannot open shared object file"
    )

    assert cause_of(f"# It gets stuck during startup\n\n{line}\n") == "worker_hangs"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # ai-dynamo/dynamo#1188, #851, #429 and #3493: services beside the engine
        (
            "ERROR x: Application shutdown with error: Failed to connect to etcd server",
            "companion_not_reached",
        ),
        ("nats.js.errors.ServiceUnavailableError: nats: ServiceUnavailable", "companion_not_reached"),
        ("[BUG]: ETCD lease lost, leading to a series of events", "companion_not_reached"),
        # vllm-project/vllm#35789 and #10556
        ("# CPU OMP thread autobind fails with few local ranks", "processor_binding"),
        ("AssertionError: Not enough allowed NUMA nodes to bind threads of 4", "processor_binding"),
        # openai/harmony#38, vllm-project/vllm#46464 and #57099
        ("openai_harmony.HarmonyError: unexpected tokens remaining in message header", "harmony_not_parsed"),
        ("# [Bug]: Encountered `openai_harmony.HarmonyError` when using it", "harmony_not_parsed"),
        # vllm-project/vllm#12332: mistral-common's classes of refused messages
        (
            "mistral_common.exceptions.InvalidFunctionCallException: Tool call id was x but must be",
            "messages_refused",
        ),
        # vllm-project/vllm#43995: JSON of a tool call is no file of the model
        (
            "A tool call that holds no JSON crashes the tokenizer tool parser with a JSONDecodeError.",
            "tool_call_not_parsed",
        ),
        # ROCm/ROCm#6630: the driver's own words
        ("amdgpu 0000:07:00.0: [gfxhub] page fault (src_id:0 ring:24)", "rocm_fault"),
        # vllm-project/vllm#13309
        ("# Segment fault when loading a model on several GPUs", "process_crashed"),
        # llm-d/llm-d#1430: an image's user that may not write, which the kubelet repeats
        (
            "# It is in CrashLoopBackOff\n\nPermissionError: [Errno 13] Permission denied: '/.config'",
            "file_not_accessible",
        ),
        # ai-dynamo/dynamo#13040
        ("A pod with another UID cannot create $HOME/.triton, it aborts with EACCES.", "file_not_accessible"),
    ],
)
def test_companions_of_the_engine_and_refused_writes_are_named(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_nvidia_s_dynamo_is_no_compiler() -> None:
    """ai-dynamo/dynamo#504: a server of that name, not torch's compiler."""
    found = failure_of("# An error handler was invoked when dynamo server is closed by ctrl+c")

    assert found.cause is None or found.cause.name != "compile_failed"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#30320, #13105 and #5162: checks of the engine's own
        ("# [Bug]: v1 scheduler assert num_new_tokens > 0", "engine_fault"),
        ("# AssertionError in Sampler with Prefix Caching and Prompt Logprobs Enabled", "engine_fault"),
        (
            FRAME.format("model_executor/layers/sampler.py", 760, "_get_logprobs") + "AssertionError",
            "request_not_checked",
        ),
        # vllm-project/vllm#53706: a frame that a person shortened
        (
            "# A cache hit crashes the core\n\nvllm/v1/core/sched/scheduler.py, in schedule\nAssertionError",
            "engine_fault",
        ),
        # LMCache/LMCache#3337: its adapter is a connector, and none of LoRA's
        (
            "# AssertionError in vllm_v1_adapter.py on request abort in vLLM V1 Scheduler",
            "kv_connector_failed",
        ),
        # volcano-sh/kthena#503
        ("ERROR 11-22 06:57:51 [a.py:548] Handshake with c00824be failed", "kv_connector_failed"),
        # vllm-project/vllm#16243, vllm-project/tpu-inference#1425 and marin-community/marin#4413
        ("# [Usage]: Failed to get global TPU topology.", "tpu_not_usable"),
        ("# [Bug]: Mosaic failed to compile TPU kernel for gpt-oss on v6e", "tpu_kernel_failed"),
        (
            '  File "/a/tpu_inference/utils.py", line 205, in make_optimized_mesh\nAttributeError: coords',
            "build_does_not_match",
        ),
        # microsoft/WSL#12467: NCCL's own reason
        (
            "RuntimeError: NCCL error: unhandled\nError while creating shared memory segment /dev/shm/nccl",
            "shared_memory_full",
        ),
        # vllm-project/vllm#36835
        ("# It drops 12.1f, only builds sm_120, not sm_121 on DGX Spark", "no_kernels_for_this_gpu"),
        # triton-inference-server/server#7547
        ("# Encounter `Stub process is not healthy` with a pod", "engine_died_serving"),
        # modelscope/ms-swift#7280: the name of the last exception is cut off
        (
            "# vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n\n"
            + FRAME.format("v1/engine/async_llm.py", 276, "add_request")
            + "vllm.v1.engine.exceptions.Engin",
            "engine_died_serving",
        ),
    ],
)
def test_checks_of_the_engine_and_of_its_companions_are_told_apart(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_a_title_says_more_than_where_ray_s_workers_start() -> None:
    """vllm-project/vllm#4411: the traceback is cut where the driver waits for its workers."""
    frame = FRAME.format("executor/ray_gpu_executor.py", 181, "_init_workers_ray")

    assert cause_of(f"# WSL2 nccl issue with 2 GPUs\n\n{frame}") == "nccl"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#579: a person tells where
        ("When I send several requests, it raises a key error at scheduler.py", "engine_fault"),
        # vllm-project/vllm#16245: a template that takes text alone
        ('TypeError: can only concatenate str (not "list") to str', "request_refused"),
        (
            FRAME.format("entrypoints/chat_utils.py", 1175, "apply_hf_chat_template"),
            "template_refused_messages",
        ),
        # gpustack/gpustack#2958
        ("# Failed to deploy model with vLLM: Version xxx not found in backend 'vLLM'", "image_not_pulled"),
        # open-webui/open-webui#14848: a driver that was updated and not loaded
        ("# It won't start after updating Nvidia driver: driver/library version mismatch", "driver_mismatch"),
        # vllm-project/vllm#5779
        ("在使用 Gloo 进行全网格连接时遇到了问题", "ranks_not_connected"),
        # noonghunna/club-3090#758: a name of weights in a title is not why a server dies
        ("# vllm-thinkingcap-27b-dual-w4a8 crashes after small number of inference", "engine_died_serving"),
        # vllm-project/vllm#14765
        ("# [V1][Bug] IMA with ngram spec decoding and flashinfer", "illegal_memory_access"),
    ],
)
def test_what_people_say_of_servers_is_named(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_a_warning_of_all_platforms_but_cuda_is_not_what_a_person_describes() -> None:
    """vllm-project/vllm-ascend#1565: the plugin has kernels of its own."""
    said = "# It crashes\n\nIt reports an error on HcclAllgather: errcode 6:\n\n"
    warned = "Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")"

    assert cause_of(f"{said}WARNING 07-01 00:37:06 [a.py:22] {warned}") == "ascend_fault"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#2719: a /dev/shm that is not full, but may not be written
        (
            "RuntimeError: unable to open shared memory object <t> in read mode: Permission denied (13)",
            "file_not_accessible",
        ),
        # runpod-workers/worker-vllm#85: a field of a request is no flag
        (
            '"message": "1 validation error for ChatCompletionRequest: Extra inputs [type=extra_forbidden]"',
            "request_parameter_refused",
        ),
        # zai-org/GLM-OCR#10
        ("# Transformer与VLLM版本冲突", "build_does_not_match"),
    ],
)
def test_words_of_requests_and_of_shared_memory_are_told_apart(text: str, cause: str) -> None:
    assert cause_of(text) == cause
