"""Parts of an environment or of a choice with remedies of their own, by messages of sources and threads."""

import pytest

from service.startup_log.log import read_log

PREFIX = "(EngineCore_DP0 pid=312) ERROR 10-02 09:14:22 [core.py:843] "
EXPERTS = 'File "/v/vllm/model_executor/layers/fused_moe/fused_moe.py", line 1485, in fused_experts_impl'
TILE = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 263168"
ENCODER = 'File "/v/vllm/v1/worker/gpu_model_runner.py", line 3201, in get_multimodal_embeddings'
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 31.20 GiB."

EXCEPTIONS = [
    # torch, _inductor/scheduler.py create_backend; sasha0552/pascal-pkgs-ci#5
    (
        "RuntimeError: Found Tesla P40 which is too old to be supported by the triton GPU compiler",
        "gpu_too_old_for_triton",
    ),
    # vLLM 0.19.0, platforms/cuda.py get_attn_backend_cls; unslothai/unsloth#7091
    (
        (
            "ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this "
            "configuration. Reason: ['kv_cache_dtype not supported']"
        ),
        "chosen_backend_refused",
    ),
    (
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(",
        "no_attention_backend",
    ),
    # vLLM 0.19.0, fused_moe/oracle/nvfp4.py _make_log_unsupported; vllm-project/vllm#37931
    (
        (
            "ValueError: NvFp4 MoE backend 'FLASHINFER_CUTEDSL' does not support the deployment "
            "configuration since kernel does not support ('standard',) activation format."
        ),
        "chosen_moe_backend_refused",
    ),
    (
        "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration.",
        "quantization_not_supported",
    ),
    # vllm-ascend, _310p/attention/attention_mask.py; vllm-project/vllm-ascend#6471
    ("NotImplementedError: 310P does not support runner_type='pooling'", "pooling_not_supported"),
    ("AttributeError: 'Qwen3ForCausalLM' object has no attribute 'pooler'", "pooling_not_supported"),
    # vLLM 0.10.2, lora/utils.py; vllm-project/vllm#9280
    ("ValueError: base_model.model.lm_head.weight is unsupported LoRA weight", "adapter_with_whole_weights"),
    # vLLM 0.10.2 and 0.6.3, bitsandbytes loaders; vllm-project/vllm#13297
    (
        "ValueError: Prequant BitsAndBytes models with tensor parallelism is not supported. Please try with",
        "bitsandbytes_not_sharded",
    ),
    (
        "ValueError: Prequant BitsAndBytes 8bit models with FusedMoE is not supported yet.",
        "quantization_not_supported",
    ),
    # vLLM 0.11.0, models/utils.py AutoWeightsLoader; vllm-project/vllm#28517
    (
        "ValueError: There is no module or parameter named 'mlp_AR' in TransformersForCausalLM",
        "weights_not_of_transformers_class",
    ),
    (
        "ValueError: There is no module or parameter named 'mlp_AR' in Qwen2VLModel",
        "weights_do_not_fit_the_class",
    ),
    # torch, _ops.py; vllm-project/vllm#13593
    ("AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'", "kernels_of_vllm_missing"),
    # vLLM 0.19.0, v1/executor/ray_utils.py; vllm-project/vllm#13093
    ("ValueError: Current node has no GPU available. current_node_resource={}", "ray_driver_without_gpu"),
    # huggingface_hub, utils/_validators.py; gpustack/gpustack#1268
    (
        (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            "'namespace/repo_name': '/data/models/x'. Use `repo_type` argument if needed."
        ),
        "model_folder_not_there",
    ),
    (
        "huggingface_hub.errors.HFValidationError: Repo id must use alphanumeric chars, '-', '_' or '.'.",
        "repository_name_not_allowed",
    ),
    ("huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: R)", "model_not_found"),
    ("huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: R)", "hub_access_not_granted"),
    # urllib3 2 around OpenSSL's words; vllm-project/vllm#12673
    (
        (
            "requests.exceptions.SSLError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co'): "
            "Max retries exceeded with url: /x (Caused by SSLError(SSLCertVerificationError(1, '[SSL: "
            "CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer')))\"))"
        ),
        "certificate_not_trusted",
    ),
    # NVML, in pynvml's words
    ("pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found", "driver_library_not_found"),
]

CHOSEN = [
    # vLLM 0.11.1, attention/backends/registry.py; 0.8.5, platforms/cuda.py and vllm_flash_attn
    ("ValueError: Unknown attention backend: 'FOO'. Valid options are: ...", "no_such_attention_backend"),
    ("ValueError: Invalid attention backend for cuda, with use_v1: True", "no_such_attention_backend"),
    ("AssertionError: Unsupported FA version: None", "flash_attention_not_usable"),
    # vLLM 0.10.2, config/__init__.py, config/cache.py and utils/__init__.py; 0.19.0, v1/worker
    (
        "ValueError: The model type 'gemma3' does not support float16. Reason: Numerical instability.",
        "dtype_not_for_this_model",
    ),
    ("ValueError: Too large swap space. 8.00 GiB out of the 7.00 GiB", "swap_space_too_large"),
    (
        "ValueError: With `vllm serve`, you should provide the model as a positional argument or in a",
        "serve_without_model",
    ),
    (
        "AssertionError: Cannot re-initialize the input batch when CPU weight offloading is enabled.",
        "cpu_offload_with_other_blocks",
    ),
    # vLLM 0.33.0, v1/worker/cpu_worker.py; v1/engine/utils.py
    (
        (
            "ValueError: The worker already uses 9.1 GiB (model weights and runtime), more than the 8.0 GiB "
            "of CPU memory reserved for it on node 0, leaving none for the KV cache."
        ),
        "cpu_memory_too_small",
    ),
    (
        "RuntimeError: Remote engine 2 must use --headless unless in external or hybrid dp lb mode",
        "data_parallel_launch",
    ),
    # vLLM 0.19.0, config/model.py, lora/, v1/worker/ and v1/attention/backends/; 0.33.0, config/vllm.py
    ("NotImplementedError: Pipeline parallelism is not supported for this model.", "pipeline_not_supported"),
    ("ValueError: FooForCausalLM does not support LoRA yet.", "adapters_not_supported"),
    ("RuntimeError: Model does not support EAGLE3 interface but aux_hidden", "speculation_not_supported"),
    ("ValueError: This model does not support `--runner pooling`. ", "runner_not_of_this_model"),
    (
        (
            "NotImplementedError: Encoder self-attention and encoder/decoder cross-attention are not "
            "implemented for TritonMLAImpl"
        ),
        "encoder_attention_missing",
    ),
    (
        "ValueError: Prefill context parallelism requires Model Runner V2. Remove VLLM_USE_V2",
        "other_model_runner_needed",
    ),
    ("ValueError: Loading lora sql failed: No adapter found for /loras/sql", "adapter_not_found"),
    ("ValueError: Dual CUDA streams are only supported on CUDA platforms.", "feature_not_on_this_platform"),
    # Ray 2, experimental/channel; vLLM 0.6.6, executor/ray_utils.py
    ("ray.exceptions.RayChannelTimeoutError: System error: Timed out waiting", "ray_step_timed_out"),
    ("ValueError: Ray does not allocate any GPUs on the driver node.", "ray_driver_without_gpu"),
    # torch, _inductor/exc.py; FlashInfer, jit/core.py; Triton, runtime/driver.py
    (
        "torch._inductor.exc.InductorError: TritonMissing: Cannot find a working triton installation.",
        "triton_not_usable",
    ),
    ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "flashinfer_without_gpu_of_its_own"),
    ("RuntimeError: 0 active drivers ([]). There should only be one.", "no_gpu_visible"),
    ("RuntimeError: size_n = 6840 is not divisible by tile_n_size = 64", "quantization_blocks_do_not_divide"),
    # NCCL 2, as torch repeats it
    (
        "torch.distributed.DistBackendError: remote process exited or there was a network error, NCCL 2.27",
        "other_rank_ended",
    ),
]

COMPILED = [
    # gcc, GNU ld, nvcc and ptxas; vllm-project/vllm#19656, flashinfer-ai/flashinfer#5064
    ("/usr/include/x.h:1:10: fatal error: stddef.h: No such file or directory", "compiler_without_headers"),
    ("/build/main.c:5:10: fatal error: Python.h: No such file or directory", "python_headers_missing"),
    ("x.cuh:17:10: fatal error: curand.h: No such file or directory", "cuda_headers_missing"),
    ("/usr/bin/ld: cannot find -lcudart: No such file or directory", "linker_finds_no_cuda"),
    (
        "host_config.h:143:2: error: #error -- unsupported GNU version! gcc versions later than 13",
        "host_compiler_too_new",
    ),
    ("ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'", "cuda_compiler_too_old"),
    ("/bin/sh: 1: nvcc: not found", "toolchain_missing"),
    ("nvrtc: error: invalid value for --gpu-architecture (-arch)", "cuda_compiler_too_old"),
    # clang, where a kernel of HIP is compiled; vllm-project/vllm#36167
    ("Error: Please provide architecture for which code is to be generated.", "hip_compiler_without_target"),
    # NCCL 2, src/misc/socket.cc, shmutils.cc and src/transport/nvls.cc; docker
    ("n1:1:2 [0] misc/socket.cc:540 NCCL WARN Bootstrap : no socket interface found", "nccl_not_connected"),
    ("n1:1:2 misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x", "shared_memory_full"),
    ("n1:1:2 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'", "nccl_nvls"),
    ('docker: Error response from daemon: could not select device driver ""', "container_without_gpus"),
]

TOGETHER = [
    # What stands beside an exception says which of several causes it has.
    # vLLM 0.10.1, fused_moe/fused_moe.py; QwenLM/Qwen3-Coder, an H20 with 8 ranks
    ((EXPERTS, TILE), "moe_tile_too_large"),
    ((TILE,), "kernel_tile_too_large"),
    ((ENCODER, OOM), "media_fill_memory"),
    ((OOM,), "out_of_memory"),
    # vLLM 0.9.0, models/llama_eagle3.py; vllm-project/vllm#18906
    (
        (
            "KeyError: 'embed_tokens.weight'",
            "AssertionError: assert hidden_states.shape[-1] == input_embeds.shape[-1]",
        ),
        "draft_does_not_fit",
    ),
    (("KeyError: 'embed_tokens.weight'",), "weights_do_not_fit_the_class"),
    # NCCL 2, include/checks.h; vllm-project/vllm#18446 and #18831
    (
        (
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:133, unhandled cuda error",
            "Last error:",
            "Cuda failure 'out of memory'",
        ),
        "nccl_out_of_memory",
    ),
    (
        (
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
            "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-x (size 9637888)",
        ),
        "ranks_without_common_shm",
    ),
    (("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",), "nccl"),
]

HANGS = [
    # Dynamo, storage/kv.rs and engines/vllm/worker.rs: apache/beam#36966, ai-dynamo/dynamo#349
    ("BuildError(Unable to create lease. Check etcd server status at http://h:2379", "companion_not_reached"),
    ("Failed to import python 'vllm' module. Are we running in the correct venv?", "build_does_not_match"),
    ("CUDA Invalid Argument Error while the model loads", "cuda_call_refused"),
    # vllm-project/vllm#12292 and #8087, in words of one's own
    ("vLLM hangs at pynccl.py with two GPUs", "ranks_hang_in_exchange"),
    ("It never starts with --tensor-parallel-size 2, it is stuck", "ranks_hang_in_exchange"),
    ("It hangs at the start and needs NCCL_P2P_DISABLE=1", "ranks_hang_in_exchange"),
    ("gpt-oss fails on a 2080 Ti: attention sinks not supported", "attention_sinks_not_supported"),
]


def _cause(*lines: str) -> str:
    failure = read_log("\n".join(lines)).failure
    assert failure is not None
    assert failure.cause is not None
    return failure.cause.name


@pytest.mark.parametrize(("message", "cause"), EXCEPTIONS + CHOSEN, ids=lambda text: text[:40])
def test_an_exception_has_the_cause_of_its_own_part(message: str, cause: str) -> None:
    assert _cause(PREFIX + message) == _cause(message) == cause


@pytest.mark.parametrize(("message", "cause"), COMPILED + HANGS, ids=lambda text: text[:40])
def test_a_line_has_the_cause_of_its_own_part(message: str, cause: str) -> None:
    assert _cause(message) == cause


@pytest.mark.parametrize(("messages", "cause"), TOGETHER, ids=lambda text: str(text)[:40])
def test_lines_together_have_the_cause_of_their_part(messages: tuple[str, ...], cause: str) -> None:
    assert _cause(*(PREFIX + each for each in messages)) == cause


def test_an_operand_is_no_feature() -> None:
    # Python 3.12, TypeError of an operator
    failure = read_log("TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'").failure

    assert failure is not None
    assert failure.cause is None or failure.cause.name != "feature_not_supported"
