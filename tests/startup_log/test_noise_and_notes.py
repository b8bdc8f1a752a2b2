"""What programs report and survive, and failures as documents and notes of deployments quote them."""

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

DESTRUCTOR = """\
INFO 08-16 15:33:58 [llm.py:301] Started to generate
Exception ignored in: <function LLMEngine.__del__ at 0xffff>
Traceback (most recent call last):
  File "/x/vllm/v1/engine/llm_engine.py", line 466, in __del__
    with suppress(Exception):
NameError: name 'suppress' is not defined
"""
"""Python 3.12, _PyErr_WriteUnraisableMsg."""
LOGGING = """\
(EngineCore pid=7) --- Logging error ---
(EngineCore pid=7) Traceback (most recent call last):
(EngineCore pid=7)   File "/x/lib/python3.12/logging/__init__.py", line 1144, in flush
(EngineCore pid=7)     self.stream.flush()
(EngineCore pid=7) RuntimeError: reentrant call inside <_io.BufferedWriter name='/root/x.log'>
(EngineCore pid=7) Call stack:
(EngineCore pid=7)   File "/x/vllm/v1/engine/core.py", line 1219, in signal_handler
"""
"""Python 3.12, logging/__init__.py Handler.handleError."""
WARNED = """\
/x/vllm/__init__.py:7: RuntimeWarning: Failed to read commit hash:
cannot import name '_version' from partially initialized module 'vllm' (most likely due to a circular import)
  from .version import (
"""
"""vLLM 0.19.0, version.py."""


@pytest.mark.parametrize("text", [DESTRUCTOR, LOGGING, WARNED])
def test_what_ends_nothing_is_no_failure(text: str) -> None:
    assert read_log(text).failure is None


def test_a_failure_below_what_ends_nothing_is_found() -> None:
    assert _cause(f"{DESTRUCTOR}{LOGGING}torch.OutOfMemoryError: CUDA out of memory.\n") == "out_of_memory"
    assert _cause(f"{WARNED}ValueError: No available memory for the cache blocks.\n") is not None


SIGNALLED = """\
ERROR 05-26 18:58:11 [engine.py:448]   File "/x/vllm/executor/ray_utils.py", line 227, in _wait_until_pg_ready
ERROR 05-26 18:58:11 [engine.py:448]     ready, _ = ray.wait([pg_ready_ref], timeout=wait_interval)
ERROR 05-26 18:58:11 [engine.py:448]   File "/x/ray/_private/worker.py", line 1539, in sigterm_handler
ERROR 05-26 18:58:11 [engine.py:448]     sys.exit(signum)
ERROR 05-26 18:58:11 [engine.py:448] SystemExit: 15
"""
"""Ray 2.46, _private/worker.py sigterm_handler."""


def test_a_signal_that_comes_while_ranks_are_waited_for_is_the_cause() -> None:
    assert _cause(SIGNALLED) == "interrupted"


MOE_OF_FLASHINFER = """\
  File "/vllm/.venv/lib/python3.12/site-packages/flashinfer/fused_moe/core.py", line 1635, in moe_op
  File "python/tvm_ffi/cython/function.pxi", line 923, in tvm_ffi.core.Function.__call__
  File "/vllm/.venv/lib/python3/site-packages/flashinfer/data/trtllm_fused_moe_kernel_launcher.cu", line 1
RuntimeError: Check failed: routing_logits.dtype() == dl_bfloat16 (float32 vs. bfloat16) : must be bfloat16.
"""
"""FlashInfer 0.6, csrc/trtllm_fused_moe_kernel_launcher.cu."""


def test_what_a_kernel_checks_is_not_its_compilation_and_not_of_the_folder_around_it() -> None:
    found = _failure(MOE_OF_FLASHINFER)

    assert found.cause is not None
    assert (found.type, found.cause.name, found.origin.part) == (
        "RuntimeError",
        "flashinfer_kernel_failed",
        "FlashInfer",
    )


REGISTERED = """\
  File "/x/vllm/distributed/kv_transfer/kv_connector/v1/simple_connector.py", line 2, in register_kv_caches
    self.worker_handler.register_kv_caches(kv_caches)
  File "/x/vllm/v1/simple_kv_offload/worker.py", line 127, in register_kv_caches
    unique_gpu_caches[name] = raw.view(num_blocks, -1)
RuntimeError: shape '[332, -1]' is invalid for input of size 89128960
"""

NOTED = [
    (REGISTERED, "connector_refuses_cache"),
    # The same words in a layer
    ("RuntimeError: shape '[332, -1]' is invalid for input of size 89128960\n", "tensors_do_not_fit"),
    # vllm-ascend, docs/faqs
    (
        (
            "[rank0]: RuntimeError: EZ9999: Inner Error!\n[rank0]: EZ9999: numHeads / numKvHeads = 8, "
            "MLA only support {32, 64, 128}.[FUNC:CheckMlaAttrs]\n"
        ),
        "ascend_heads_not_supported",
    ),
    (
        (
            "NPU function error: c10_npu::acl::AclmdlRICaptureBegin(stream), error code is 207008\n"
            "[Error]: Stream resources are insufficient.\n"
        ),
        "ascend_graphs_exhaust_streams",
    ),
    ("RuntimeError: aclnnFoo or aclnnFooGetWorkspaceSize not in libopapi.so\n", "ascend_operator_missing"),
    ("RuntimeError: EI0006: Getting socket times out.\n", "ascend_ranks_not_connected"),
    ("ImportError: libatb.so: cannot open shared object file\n", "ascend_device_not_visible"),
    ("RuntimeError: EZ9999: Inner Error!\n", "ascend_fault"),
    # openai-harmony, src/tiktoken_ext/public_encodings.rs
    (
        "openai_harmony.HarmonyError: error downloading or loading vocab file: no vocab\n",
        "harmony_vocabulary_not_loaded",
    ),
    # huggingface_hub 1.3, _snapshot_download.py
    (
        (
            "LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the revision "
            "on the local disk and outgoing traffic has been disabled.\n"
        ),
        "model_not_in_cache",
    ),
    # httpx, _models.py raise_for_status
    (
        (
            "httpx.HTTPStatusError: Client error '401 Unauthorized' for url "
            "'https://huggingface.co/x/y/resolve/main/config.json'\n"
        ),
        "hub_access_not_granted",
    ),
    # DeepGEMM, csrc/apis/hyperconnection.hpp
    (
        "RuntimeError: Assertion error (/x/csrc/apis/hyperconnection.hpp:56): Unsupported architecture\n",
        "deep_gemm_without_kernels",
    ),
    # AWS Neuron SDK, nrt_status.h NRT_RESOURCE
    (
        "RuntimeError: Could not load the model status=4 message=Allocation Failure\n",
        "neuron_memory_exhausted",
    ),
    (
        (
            '  File "/x/site-packages/neuronx_distributed/trace.py", line 10, in x\n    run(command)\n'
            "subprocess.CalledProcessError: Command '' died with <Signals.SIGHUP: 1>.\n"
        ),
        "neuron_compiler_failed",
    ),
    # huggingface_hub 0.30, utils/_validators.py; a path is no name
    (
        "HFValidationError: Repo id must be in the from 'repo_name' or 'namespace/repo_name': '/app/x'.\n",
        "model_folder_not_there",
    ),
    # vLLM 0.7.3, attention/backends/flash_attn.py, on ROCm
    (
        "ImportError: cannot import name 'varlen_func' from 'vllm.vllm_flash_attn' (unknown location)\n",
        "flash_attention_not_usable",
    ),
    # Python 3.12, TypeError of a call: both sides are the engine's own
    (
        "TypeError: AiterFlashAttentionImpl.__init__() got multiple values for argument 'use_irope'\n",
        "call_not_known",
    ),
    # tokenizers, bindings/python
    ("RuntimeError: Already borrowed\n", "tokenizer_in_use"),
    # mkl-service; vLLM 0.19.0, model_executor/models/registry.py
    (
        (
            "ValueError: Model architectures ['Qwen2ForCausalLM'] failed to be inspected.\n"
            "Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp\n"
        ),
        "threading_layers_conflict",
    ),
]


@pytest.mark.parametrize(("text", "cause"), NOTED)
def test_the_nearer_cause_is_named(text: str, cause: str) -> None:
    assert _cause(text) == cause


@pytest.mark.parametrize(
    ("says", "means"),
    [
        ("argument --limit-mm-per-prompt: Value {image:0} cannot be converted to <function loads>.", "JSON"),
        ("argument --dtype: invalid choice: 'int4' (choose from auto, half)", "none of those"),
        ("argument --port: expected one argument", "without its value"),
        ("the following arguments are required: model_tag", "missing"),
        ("unrecognized arguments: --foo", "a word that this release does not accept"),
    ],
)
def test_what_is_wrong_with_an_argument_is_said(says: str, means: str) -> None:
    """Python 3.12, argparse.py; vLLM 0.19.0, engine/arg_utils.py optional_type."""
    found = _failure(f"vllm serve: error: {says}\n")
    assert found.cause is not None
    form = found.cause.form_of(found.message)

    assert means in (found.cause.means if form is None else form.means)


INDENTED = """\
[
  {
    "insertId": "6a23",
    "textPayload": "INFO 06-06 03:41:40 [model.py:606] Resolved architecture: Qwen2ForCausalLM",
    "timestamp": "2026-06-06T03:41:40Z"
  },
  {
    "textPayload": "ERROR 06-06 03:41:48 [core.py:1165] ValueError: No kernel for it. Reasons: ",
    "timestamp": "2026-06-06T03:41:48Z"
  },
  {
    "textPayload": "Container called exit(1).",
    "severity": "ERROR"
  }
]
"""
"""The form of `gcloud logging read --format json`."""


def test_an_indented_document_of_a_collector_is_read_without_its_metadata() -> None:
    found = _failure(INDENTED)

    assert (found.type, found.line) == ("ValueError", 8)
    assert found.message == "No kernel for it. Reasons:"


BESIDE = [
    # What a sentence says around an exception is not what the exception says
    (
        (
            "The compressor is not supported: `RuntimeError: shape '[2, 16]' is invalid for input of size 5` "
            "(the serializer assumes another layout).\n"
        ),
        "tensors_do_not_fit",
    ),
    ("It ends with `NotImplementedError: sinks are not supported` on this card.\n", "feature_not_supported"),
    # A class of Python's own is nobody's, though Triton has a `tuple`
    ("AttributeError: 'tuple' object has no attribute 'shape'\n", "call_not_known"),
    # vLLM 0.23.0, compilation/decorators.py: code that was compiled for another kernel
    (
        "AttributeError: 'QKVParallelLinear' object has no attribute 'workspace'\n",
        "compile_cache_of_another_start",
    ),
    # bitsandbytes, nn/modules.py: weights of 8 bits in the checkpoint
    (
        "AttributeError: 'Int8Params' object has no attribute 'bnb_shard_offsets'\n",
        "quantization_not_supported",
    ),
    # unix(7) on a file system without sockets
    ("zmq.error.ZMQError: Operation not supported\n", "socket_folder_not_usable"),
    # PyTorch 2, _inductor/codegen/wrapper.py: compiled code checks the sizes that it was compiled for
    ("AssertionError: expected size 5376==2560, stride 1==1 at dim=0\n", "compile_cache_of_another_start"),
    ("[Bug]: Fail to build vLLM from source on CUDA 12.6\n", "install_failed"),
    # PyTorch 2, c10/cuda/CUDACachingAllocator.cpp ExpandableSegment::map, under WSL2
    ("RuntimeError: CUDA driver error: device not ready\n", "memory_not_mapped_under_wsl"),
    ("RuntimeError: CUDA error: system not yet initialized\n", "gpu_not_ready"),
]


@pytest.mark.parametrize(("text", "cause"), BESIDE)
def test_an_exception_is_judged_by_its_own_words(text: str, cause: str) -> None:
    assert _cause(text) == cause


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("RuntimeError: this event loop is already running\n", "an event loop runs already"),
        (
            "ValueError: Currently, async scheduling is only supported with EAGLE kind of decoding.\n",
            "Asynchronous scheduling was asked for",
        ),
    ],
)
def test_what_differs_within_a_cause_is_said(text: str, means: str) -> None:
    """uvloop, loop.pyx; vLLM 0.19.0, config/vllm.py."""
    found = _failure(text)
    assert found.cause is not None
    form = found.cause.form_of(found.message)

    assert form is not None
    assert means in form.means


def test_a_file_that_takes_the_output_is_no_model() -> None:
    command = "nohup python -m vllm.entrypoints.openai.api_server \\\n  --model org/name \\\n"

    assert read_log(f"{command}  > server.log 2>&1 &\n").model == "org/name"
    assert read_log("> vllm serve org/name \\\n> --max-model-len 4096\n").flags["max_model_len"] == 4096


def _failure(text: str) -> Failure:
    found = read_log(text).failure
    assert found is not None
    return found


def _cause(text: str) -> str | None:
    cause = _failure(text).cause
    return None if cause is None else cause.name
