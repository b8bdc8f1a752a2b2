"""Kinds of failures, each by a message of the engine's or a library's source, or of a public thread."""

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

PREFIX = "(EngineCore_DP0 pid=312) ERROR 10-02 09:14:22 [core.py:843] "

RAISED = [
    # The dynamic linker, where Triton's cache lies on a file system that is mounted with noexec
    (
        "ImportError: /tmp/x/cuda_utils.cpython-312.so: failed to map segment from shared object",
        "folder_not_executable",
    ),
    # vLLM 0.19.0 to 0.33.0, envs.py env_with_choices
    (
        "ValueError: Invalid value 'FOO' for VLLM_ALL2ALL_BACKEND. Valid options: ['naive', 'pplx'].",
        "environment_variable",
    ),
    # pyzmq and NCCL, on an address that is not this host's
    (
        "zmq.error.ZMQError: Cannot assign requested address (addr='tcp://10.0.0.1:5555')",
        "ranks_not_connected",
    ),
    ("RuntimeError: ncclSystemError: Call to bind failed: Cannot assign requested address", "nccl"),
    # transformers 4, quantizers/quantizer_bnb_4bit.py
    (
        "ImportError: Using `bitsandbytes` 4-bit quantization requires the latest version of bitsandbytes",
        "package_missing",
    ),
    # transformers 5.0, modeling_rope_utils.py: the field moved into rope_parameters
    ("AttributeError: 'Qwen3Config' object has no attribute 'rope_theta'", "transformers_too_new"),
    # transformers 4, utils/hub.py: the path of a folder begins with a slash
    (
        (
            "OSError: /models/x does not appear to have a file named config.json. Checkout "
            "'https://huggingface.co//models/x/tree/main' for available files."
        ),
        "no_model_config",
    ),
    # vLLM 0.19.0, platforms/interface.py; torch, cuda/__init__.py
    (
        "RuntimeError: CUDA_VISIBLE_DEVICES is set to empty string, which means GPU support is disabled.",
        "no_gpu_visible",
    ),
    ("AssertionError: Invalid device id", "too_few_gpus"),
    # protobuf 4 and 6; torch, utils/tensor_numpy.cpp
    ("TypeError: Descriptors cannot be created directly.", "build_does_not_match"),
    ("RuntimeError: Numpy is not available", "build_does_not_match"),
    # pyzmq: an interface that this host does not have
    ("zmq.error.ZMQError: No such device (addr='tcp://10.0.0.1:5555')", "ranks_not_connected"),
    # PEFT's names of weights; google-api-core, exceptions.py; torch, caffe2/serialize
    (
        "KeyError: 'base_model.model.model.layers.0.mlp.experts.0.gate_proj.lora_A.weight'",
        "adapter_does_not_fit",
    ),
    (
        "google.api_core.exceptions.Forbidden: 403 GET https://storage/x",
        "object_storage_refused",
    ),
    ("RuntimeError: PytorchStreamWriter failed writing file data/1: file write failed", "no_space_left"),
    # Modules of Python that Windows lacks
    ("ModuleNotFoundError: No module named 'resource'", "platform_not_supported"),
    # vLLM 0.8.5 to 0.33.0, device_allocator/cumem.py; v1/worker/gpu_worker.py
    ("AssertionError: cumem allocator is not available", "sleep_mode_failed"),
    ("AssertionError: Sleep mode can only be used for one instance per process.", "sleep_mode_failed"),
    ("AssertionError: Memory usage increased after sleeping.", "sleep_mode_failed"),
    # vLLM 0.17.0, v1/worker/gpu/buffer_utils.py; vllm-project/vllm#47387
    ("RuntimeError: UVA is not available", "pinned_memory_off"),
    # vLLM 0.10.2, v1/executor/multiproc_executor.py collective_rpc
    ("TimeoutError: RPC call to execute_model timed out.", "step_timed_out"),
    ("TimeoutError: RPC call to sample_tokens timed out.", "step_timed_out"),
    # vLLM 0.8.5, utils.py; 0.33.0, utils/argparse_utils.py
    ("ValueError: Config file must be of a yaml/yml type. .json supplied", "config_file_not_read"),
    # vLLM 0.8.5, distributed/utils.py get_pp_indices
    ("ValueError: sum(partitions)=30 does not match num_hidden_layers=32.", "environment_variable"),
    # vLLM 0.19.0, multimodal; vllm-project/vllm#18572
    (
        "ValueError: Attempted to assign 25 + 25 + 25 = 75 multimodal tokens to 147 placeholders",
        "multimodal_input_not_processed",
    ),
    # vLLM 0.17.0, tool_parsers/abstract_tool_parser.py; tool_parsers/seed_oss_tool_parser.py
    ("KeyError: \"Tool parser 'glm9' not found.\"", "unknown_argument"),
    (
        "RuntimeError: Seed_Oss XML parser: tokenizer did not include <seed:tool_call> or its closing tag.",
        "parser_does_not_fit",
    ),
    # vLLM 0.17.0, config/observability.py; prometheus_client, registry.py
    (
        "ValueError: OpenTelemetry is not available. Unable to configure 'otlp_traces_endpoint'.",
        "package_missing",
    ),
    (
        "ValueError: Duplicated timeseries in CollectorRegistry: {'vllm:num_requests_running'}",
        "distributed_state",
    ),
    # The dynamic linker, of libraries that a package of Python brings with it, and of the system's.
    (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "system_library_missing",
    ),
    (
        "OSError: libmpi.so.40: cannot open shared object file: No such file or directory",
        "system_library_missing",
    ),
    (
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "build_does_not_match",
    ),
    # transformers 5.0, tokenization_utils_tokenizers.py; vLLM 0.24.0, transformers_utils/config.py
    (
        "ValueError: Tokenizer class TokenizersBackend does not exist or is not currently imported.",
        "transformers_too_old",
    ),
    ("ImportError: Support for Transformers v4 is deprecated and was removed", "transformers_too_old"),
    # FlashInfer 0.6.4, artifacts.py and jit/core.py
    ("RuntimeError: Failed to download cubins", "kernels_not_downloaded"),
    (
        (
            "ConnectionError: HTTPSConnectionPool(host='edge.urm.nvidia.com', port=443): Max"
            " retries exceeded with url: /artifactory/sw-kernelinferencelibrary-public-generic-local/"
        ),
        "kernels_not_downloaded",
    ),
    # PyTorch 2.6, torch/serialization.py; transformers 4.51, utils/import_utils.py
    ("_pickle.UnpicklingError: Weights only load failed. This file can", "checkpoint_may_hold_code"),
    (
        "ValueError: Due to a serious vulnerability issue in `torch.load`, even with `weights_only=True`, we",
        "checkpoint_may_hold_code",
    ),
    # huggingface_hub 0.34, file_download.py: the package that the variable asks for is absent.
    (
        (
            "ValueError: Fast download using 'hf_transfer' is enabled (HF_HUB_ENABLE_HF_TRANSFER=1) but "
            "'hf_transfer' package is not available in your environment. Try `pip install hf_transfer`."
        ),
        "package_missing",
    ),
    # SentencePiece, __init__.py Load; transformers 4, tokenization_utils_base.py
    ("TypeError: not a string", "tokenizer_not_loaded"),
    ("ImportError: Numba needs NumPy 2.2 or less. Got NumPy 2.4.", "build_does_not_match"),
    # oneDNN 3, dnnl.hpp; vllm-project/vllm#24976
    (
        "RuntimeError: could not create a primitive descriptor for the matmul primitive",
        "cpu_library_failed",
    ),
    # torch, TCPStore.cpp and socket.cpp
    (
        (
            "DistNetworkError: The client socket has timed out after 600000ms while trying to "
            "connect to (10.0.0.1, 29500)."
        ),
        "ranks_not_connected",
    ),
    (
        (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
            "1/2 clients joined."
        ),
        "ranks_not_connected",
    ),
    # NCCL 2, src/misc/shmutils.cc, as torch repeats it
    (
        (
            "DistBackendError: NCCL error in: ../NCCLUtils.cpp:94, unhandled system error Error"
            " while creating shared memory segment /dev/shm/nccl-8Zt2Vx, error: No space left on "
            "device (28)"
        ),
        "shared_memory_full",
    ),
    # flash-attention 2, csrc/flash_attn/flash_api.cpp
    (
        "RuntimeError: This flash attention build does not support tanh softcapping.",
        "no_attention_backend",
    ),
    (
        "RuntimeError: FlashAttention forward only supports head dimension at most 256",
        "no_attention_backend",
    ),
    # Kubernetes sets VLLM_PORT and the like for a service that is called so.
    ("ValueError: invalid literal for int() with base 10: 'tcp://10.43.127.5:8000'", "environment_variable"),
]

LOGGED = [
    # nvidia-smi; PaddlePaddle/PaddleOCR#17689
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "driver_not_loaded",
    ),
    (
        (
            "# The server does not start\nWARNING [_custom_ops.py:20] Failed to import from vllm._C "
            "with ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')"
        ),
        "driver_not_in_container",
    ),
    # Kubernetes, kubelet; docker; containerd
    ('Error: secret "hf-token" not found', "container_not_created"),
    ("Warning  FailedCreatePodSandBox  kubelet  Failed to create pod sandbox", "container_not_created"),
    ('Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) a-0', "container_not_created"),
    (
        'Error response from daemon: Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout',
        "image_not_pulled",
    ),
    # NCCL 2, src/misc/ibvwrap.cc
    (
        (
            "n1:8:9 [0] misc/ibvwrap.cc:206 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate"
            " memory"
        ),
        "locked_memory_limit",
    ),
    # NVSHMEM 3, modules/transport/ibgda
    (
        "src/modules/transport/ibgda/ibgda.cpp:2280: NULL value get_device_list failed",
        "expert_exchange_failed",
    ),
    # Mooncake, transfer_engine_py.cpp
    (
        "E1010 10:11:12.131415 87 transfer_engine_py.cpp:123] Failed to install transport",
        "kv_connector_failed",
    ),
    # The kernel, mm/oom_kill.c
    (
        "kernel: Memory cgroup out of memory: Killed process 8123 (VLLM::EngineCor) total-vm:198231312kB",
        "out_of_host_memory",
    ),
    # torch, utils/data and docker's message of the same limit
    (
        (
            "terminate called after throwing an instance of 'std::system_error'\n  what():  Resource "
            "temporarily unavailable"
        ),
        "thread_limit",
    ),
    # vLLM 0.17.0, v1/core/sched/scheduler.py
    (
        (
            "ERROR 11-02 10:11:12 [scheduler.py:9] Failing 3 request(s) due to KV load "
            "failure (failure_policy=fail, 512 tokens affected). Request IDs: {'a'}"
        ),
        "kv_connector_failed",
    ),
    # vLLM 0.8.5, plugins/__init__.py
    ("ERROR 11-02 10:11:12 [__init__.py:51] Failed to load plugin my_models", "plugin_failed"),
    # vLLM 0.8.5 to 0.33.0, distributed/device_communicators/pynccl_wrapper.py; huggingface/trl#3925
    (
        "ERROR 08-20 09:48:31 [pynccl_wrapper.py:229] Failed to load NCCL library from /x/libnccl.so.2.21.5.",
        "nccl_not_loaded",
    ),
    # PyYAML, scanner.py; kserve/kserve#3446
    ("error parsing vllm.yaml: did not find expected '-' indicator", "container_not_created"),
    # Docker and Kubernetes
    (
        "docker: permission denied while trying to connect to the Docker daemon socket",
        "container_not_created",
    ),
    ('Warning  FailedScheduling  12s  persistentvolumeclaim "models" not found', "pod_not_scheduled"),
    ('Error: RuntimeClass "nvidia" not found', "container_without_gpus"),
]

REQUESTS = [
    # FastAPI's answer to a body that it does not take
    (
        "Error code: 400 - {'message': \"[{'type': 'missing', 'loc': ('body', 'n')}]\"}",
        "request_parameter_refused",
    ),
    # Starlette's answer to a route that is not there, as the client of OpenAI prints it
    ("openai.NotFoundError: Error code: 404 - {'detail': 'Not Found'}", "route_not_found"),
    # httpcore, h11 and aiohttp: the server went away within an answer
    ("httpcore.RemoteProtocolError: Server disconnected without sending a response.", "server_not_reached"),
    (
        "aiohttp.client_exceptions.ClientPayloadError: Response payload is not completed",
        "server_not_reached",
    ),
    # google/tunix#222
    (
        "ValueError: The decoder prompt (length 44) is longer than the maximum model length of 16.",
        "request_refused",
    ),
    # vLLM 0.17.0, entrypoints/openai/chat_completion/protocol.py
    ("ValueError: When using `tool_choice`, `tools` must be set.", "request_parameter_refused"),
    # jinja2 3, exceptions.py
    ("jinja2.exceptions.TemplateError: System role not supported", "template_refused_messages"),
    (
        "jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'",
        "template_refused_messages",
    ),
    # aiohttp 3, client_exceptions.py
    (
        "aiohttp.client_exceptions.ClientResponseError: 403, message='Forbidden', url='https://h/y.png'",
        "media_not_fetched",
    ),
]

SAID = [
    # vllm-project/vllm#9364 and #16151; open-webui/open-webui#4812
    ("[Bug]: 400 Bad Request", "request_refused"),
    ("400 error in the UI on context overflow", "request_refused"),
    ("[Bug]: Random infinite response generation, then a crash", "output_does_not_end"),
    # ai-dynamo/dynamo#4580, vllm-project/vllm#26896, LMCache/LMCache#411
    ("Fatal KeyError with the KVBMConnector integration", "kv_connector_failed"),
    ("[Bug]: the decode worker does prefill again with NixlConnector", "kv_connector_failed"),
    # vllm-project/vllm#13388 and #2406
    ("[Bug]: GPU placement group creation error over two hosts", "ray_cluster_not_ready"),
    ("Multi-node serving: problems with Ray", "ray_cluster_not_ready"),
    # vllm-project/recipes#515, vllm-project/vllm#15758
    ("RuntimeError of Gemma4ReasoningParser when serving", "parser_does_not_fit"),
    ("[Bug]: deepseek reasoning parser bug", "reasoning_not_separated"),
    # vllm-project/vllm#1432
    ("requests.exceptions.ConnectionError on our offline cluster", "no_network"),
    # huggingface/trl#6797 and #3925
    ("NCCL weight transfer deadlocks when the world size exceeds 2", "trainer_not_joined"),
    ("Always a timeout in init_communicator() of the trainer", "trainer_not_joined"),
    # unslothai/unsloth#1380
    ("Key error on a 4bit dynamic quant", "weights_do_not_fit_the_class"),
    # ray-project/ray#58960
    ("Ray Serve is not compatible with the latest release of vllm", "build_does_not_match"),
    # vllm-project/vllm#2136
    ("KV cache is low, profiling does not see the remaining VRAM", "cache_smaller_than_expected"),
    # vllm-project/vllm#42261
    ("[Bug]: Frequent crashes with MTP enabled", "speculation_failed"),
    # pytorch/pytorch#137695
    ("hipBLASLt crashes with TP 8 on MI300 (gfx942)", "rocm_fault"),
    # vllm-project/vllm#21336, #50011, #36651, #47548
    ("[Bug]: the server crashes when --enable-sleep-mode is on", "sleep_mode_failed"),
    ("[Bug]: wake_up kills the engine core on unified memory, sleep level 1 works", "sleep_mode_failed"),
    ("double free in the cumem allocator between sleep and wake cycles", "sleep_mode_failed"),
    # vllm-project/vllm#39472 and ls1intum/edutelligence#925
    ("[Bug]: Missing soundfile dependency breaks transcription", "package_missing"),
    ("Transcription always fails since vLLM is installed without the audio extra", "package_missing"),
    # vllm-project/vllm#18385
    ("[Bug]: Audio transcription does not support webm", "media_not_fetched"),
    # vllm-project/vllm#24976
    ("[Bug]: oneDNN primitive creation fails on Graviton3", "cpu_library_failed"),
    # llm-d/llm-d#485
    ("The mounted folder is owned by root, and we do not have the proper permissions", "file_not_accessible"),
]

CUT = [
    # modelscope/ms-swift#5010: a traceback that ends in the inspection of the model's class
    (
        (
            '  File "/opt/vllm/model_executor/models/registry.py", line 352, in load_model_cls\n'
            "    mod = importlib.import_module(self.module_name)\n"
            '  File "/opt/python3.10/importlib/__init__.py", line 126, in import_module'
        ),
        "inspect_failed",
    ),
    # verl-project/verl#649: an assertion without words on a field of the config
    (
        (
            "Traceback (most recent call last):\n"
            '  File "/opt/site-packages/vllm/config.py", line 1764, in _get_and_verify_max_len\n'
            '    assert "factor" in rope_scaling\nAssertionError'
        ),
        "model_config_not_read",
    ),
    # vllm-project/vllm#6947: the old engine logs the name of the weight alone
    (
        (
            "ERROR 11-27 08:34:57 engine.py:366] 'lm_head.weight'\n"
            "ERROR 11-27 08:34:57 engine.py:366] Traceback (most recent call last):"
        ),
        "weights_do_not_fit_the_class",
    ),
]


def failure_of(text: str) -> Failure | None:
    return read_log(text).failure


def named(text: str) -> str | None:
    failure = failure_of(text)
    return failure.cause.name if failure is not None and failure.cause is not None else None


@pytest.mark.parametrize(("message", "cause"), RAISED + REQUESTS, ids=lambda text: text[:40])
def test_an_exception_is_named_with_and_without_the_prefix_of_a_log(message: str, cause: str) -> None:
    assert (named(message), named(PREFIX + message)) == (cause, cause)


@pytest.mark.parametrize(("message", "cause"), LOGGED + SAID + CUT, ids=lambda text: text[:40])
def test_what_is_logged_or_said_is_named(message: str, cause: str) -> None:
    assert named(message) == cause


@pytest.mark.parametrize(("message", "cause"), REQUESTS, ids=lambda text: text[:40])
def test_a_refused_request_is_no_failed_start(message: str, cause: str) -> None:
    failure = failure_of(message)

    assert failure is not None
    assert failure.refused, cause


@pytest.mark.parametrize(
    "line",
    [
        # vLLM 0.11.0, device_allocator/cumem.py and v1/worker/gpu_worker.py: sleep mode at work
        "(EngineCore_DP0 pid=8) INFO 11-14 15:11:23 [cumem.py:239] CuMemAllocator: sleep freed 34.06 GiB",
        "(EngineCore_DP0 pid=8) INFO 11-14 15:11:23 [gpu_worker.py:144] Sleep mode freed 35.43 GiB memory",
        "(EngineCore_DP0 pid=8) WARNING 11-14 15:11:23 [cpu.py:390] Pin memory is not supported on CPU.",
        "INFO 11-14 15:11:23 [__init__.py:43] Available plugins for group vllm.general_plugins:",
    ],
)
def test_what_a_healthy_engine_logs_is_no_failure(line: str) -> None:
    assert failure_of(line) is None
