"""What the engine does at the place of an error, and what leads there, where the exception says nothing.

The frames are those of public reports, by the numbers of the files in the searched index or of issues.
"""

import pytest

from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def ending_of(text: str) -> Diagnosis:
    ending = explain(read_log(text), None).ending
    assert ending is not None
    return ending


SCHEDULED = """\
File "vllm/v1/core/sched/scheduler.py", line 1761, in update_from_output
    req_index = model_runner_output.req_id_to_index[req_id]
KeyError: 'chatcmpl-<per-request id>'
"""
"""58524321579: the ranks' own NotImplementedError came before, and this one only followed."""
HASHES = """\
    File "vllm/v1/core/block_pool.py", line 277, in cache_full_blocks
      block_hash = new_block_hashes[i]
    IndexError: list index out of range
"""
"""69034998907."""
ABORTED = """\
EngineCore encountered a fatal error.

File ".../vllm/v1/core/sched/scheduler.py", line 1782,
in update_from_output
    self._update_from_kv_xfer_finished(kv_connector_output)

File ".../vllm/v1/core/sched/scheduler.py", line 2500, in _update_from_kv_xfer_finished
    assert req_id in self.requests

AssertionError
"""
"""The form of vLLM 0.25, v1/core/sched/scheduler.py: a client went away while its cache was moved."""
POPLEFT = """\
File "vllm/v1/core/block_pool.py", line 336, in get_new_blocks
    ret = self.free_block_queue.popleft_n(num_blocks)
File "vllm/v1/core/kv_cache_utils.py", line 269, in popleft_n
    assert curr_block is not None
AssertionError
"""
"""vLLM 0.20, v1/core/kv_cache_utils.py FreeKVCacheBlockQueue."""
SHAPE = """\
(EngineCore pid=9)   File "/usr/lib/vllm/v1/worker/gpu/model_runner.py", line 9, in prepare
(EngineCore pid=9)     n = batch.num_tokens[i]
(EngineCore pid=9) IndexError: index 4 is out of bounds for axis 0 with size 4
"""


@pytest.mark.parametrize(
    ("text", "cause", "means", "helps"),
    [
        (SCHEDULED, "engine_fault", "id of a request", "worker's error"),
        (HASHES, "engine_fault", "free blocks", "--no-enable-prefix-caching"),
        (ABORTED, "connector_step_failed", "aborted", "--kv-transfer-config"),
        (POPLEFT, "engine_fault", "free blocks", "--kv-offloading-size"),
        (SHAPE, "engine_fault", "second model runner", "VLLM_USE_V2_MODEL_RUNNER=0"),
    ],
)
def test_a_bare_error_says_what_its_place_does(text: str, cause: str, means: str, helps: str) -> None:
    ending = ending_of(text)

    assert ending.cause == cause
    assert means in ending.means
    assert helps in ending.remedy


def test_a_kernel_that_states_what_it_takes_is_no_model_that_cannot_be_built() -> None:
    """vLLM 0.33.0, v1/attention/ops/flydsl_ultraquant_decode.py, by its words alone."""
    ending = ending_of("AssertionError: UltraQuant FlyDSL requires head_dim=256, got 128")

    assert ending.cause == "kernel_without_these_settings"
    assert "kernel" in ending.means


def test_layers_of_one_name_are_a_draft_or_a_second_model() -> None:
    """vLLM 0.33.0, model_executor/layers/attention/attention.py."""
    ending = ending_of("ValueError: Duplicate layer name: model.layers.0.self_attn.attn")

    assert ending.cause == "model_class_failed"
    assert "same name" in ending.means


def test_an_id_that_is_no_token_is_no_matter_of_the_tokenizer() -> None:
    """56966413363."""
    ending = ending_of(
        "TypeError: argument 'id': StreamInput must be either an integer or a list of integers"
    )

    assert ending.cause == "token_without_text"
    assert "--no-async-scheduling" in ending.remedy


def test_a_link_that_went_down_is_why_a_step_timed_out() -> None:
    """60454564122: the adapter's module overheated."""
    ending = ending_of(
        "mlx5_core: Port module event[error]: module 0, Cable error, High Temperature\n"
        "mlx5_core enp1s0f0np0: Link down\n\nTimeoutError: RPC call to sample_tokens timed out"
    )

    assert ending.cause == "step_timed_out"
    assert "network link" in ending.means


def test_a_snapshot_that_cannot_be_written_names_what_it_requires() -> None:
    """vLLM 0.33.0, snapshot/runtime.py."""
    ending = ending_of("SnapshotSecurityError: snapshot directory must have mode 0700: /data/snap")

    assert ending.cause == "snapshot_failed"
    assert "0700" in ending.remedy


def test_a_question_of_decisions_is_refused_as_a_request() -> None:
    """vLLM 0.33.0, entrypoints/openai/decisions/question_types.py."""
    ending = ending_of("StructuredDecisionError: questions: at most 4 for this model")

    assert (ending.cause, ending.refused) == ("request_parameter_refused", True)


HEAD = "Traceback (most recent call last):\n"


def traceback_in(path: str, function: str, error: str) -> str:
    return (
        f'{HEAD}  File "/usr/lib/python3/dist-packages/vllm/{path}", line 9, in {function}\n    x()\n{error}'
    )


NO_INDEX = "TypeError: 'NoneType' object is not subscriptable"


@pytest.mark.parametrize(
    ("path", "function", "error", "cause", "means"),
    [
        # vLLM 0.33.0: what each of these functions does, by its own source.
        ("model_executor/models/qwen3_vl.py", "iter_mm_grid_thw", NO_INDEX, "model_class_failed", "images"),
        ("model_executor/models/gemma2.py", "forward", NO_INDEX, "model_class_failed", "a step of it"),
        ("model_executor/models/gemma2.py", "__init__", NO_INDEX, "model_class_failed", "could not be built"),
        (
            "model_executor/layers/quantization/fp8.py",
            "get_quant_method",
            NO_INDEX,
            "quantization_not_supported",
            "`quantization_config`",
        ),
        (
            "model_executor/layers/quantization/fp8.py",
            "apply_monolithic",
            NO_INDEX,
            "quantization_not_supported",
            "A step computed",
        ),
        ("config/vllm.py", "__post_init__", NO_INDEX, "engine_fault", "brings its flags"),
        ("benchmarks/serve.py", "benchmark", NO_INDEX, "engine_fault", "`vllm bench`"),
        ("distributed/parallel_state.py", "gather", NO_INDEX, "engine_fault", "exchange tensors"),
        ("entrypoints/openai/api_server.py", "init_app_state", NO_INDEX, "engine_fault", "sets up"),
        ("entrypoints/openai/api_server.py", "tokenize", NO_INDEX, "request_failed", "answered 500"),
    ],
)
def test_the_function_tells_a_start_from_a_step_and_a_request(
    path: str, function: str, error: str, cause: str, means: str
) -> None:
    ending = ending_of(traceback_in(path, function, error))

    assert ending.cause == cause
    assert means in ending.means


@pytest.mark.parametrize(
    ("function", "cause", "helps"),
    [
        # vllm-project/vllm#10432.
        ("advance_step_flashattn", "engine_fault", "--num-scheduler-steps"),
        ("reshape_and_cache_flash", "kernel_without_these_settings", "--kv-cache-dtype auto"),
        ("rms_norm", "kernel_without_these_settings", "newer release"),
        ("cutlass_scaled_mm", "quantization_not_supported", "quantization"),
    ],
)
def test_an_operator_of_the_engine_is_that_of_its_function(function: str, cause: str, helps: str) -> None:
    """`_custom_ops.py` has the operators of all parts: vLLM 0.6.4 and 0.33.0."""
    error = "RuntimeError: tensor: name = sampled_token_ids, shape = [27, 1] is not as expected: shape[-1, 1]"
    ending = ending_of(traceback_in("_custom_ops.py", function, error))

    assert ending.cause == cause
    assert helps in ending.remedy


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # NVIDIA's documentation of Xid errors: 13, 31, 43 and 45 are a program's, 79 and 94 the card's.
        (
            "NVRM: Xid (PCI:0000:01:00): 31, pid=12, name=VLLM::Worker, MMU Fault: ENGINE GRAPHICS",
            "illegal_memory_access",
        ),
        (
            "NVRM: Xid (PCI:0000:06:00): 43, pid=5443, name=VLLM::EngineCor, Ch 00000008",
            "illegal_memory_access",
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "gpu_fault"),
        ("NVRM: Xid (PCI:0000:41:00): 94, pid=12, Contained memory error", "gpu_fault"),
        # 59564584108.
        (
            "the engine dies with a CUDA illegal memory access (Xid 31 MMU fault, VIRT_WRITE)",
            "illegal_memory_access",
        ),
        # vllm-project/vllm#5272, with Python 3.8.
        ("TypeError: 'type' object is not subscriptable", "python_too_old"),
        # vllm-project/vllm#5342.
        (
            "[Speculative decoding]: `AttributeError: 'NoneType' object has no attribute 'numel'`",
            "speculation_failed",
        ),
    ],
)
def test_what_one_line_shows(text: str, cause: str) -> None:
    assert ending_of(text).cause == cause


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        # Intel Gaudi, PyTorch bridge.
        (
            "RuntimeError: FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::234881024",
            "--max-num-seqs",
        ),
        ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed.", "hl-smi"),
        # NCCL 2, src/transport/net_ib.cc.
        (
            "NCCL WARN NET/IB: Got completion from peer 10.0.0.2<51234> with status=12 vendor err 129",
            "ibstat",
        ),
        ("RuntimeError: Error Internal", "--linear-backend"),
        # vllm-ascend, torch_binding.cpp.
        (
            "AttributeError: '_OpNamespace' '_C_ascend' object has no attribute 'weak_ref_tensor'",
            "vllm-ascend anew",
        ),
        # vLLM 0.19.0, tool_parsers/openai_tool_parser.py.
        (
            "NotImplementedError: Not being used, manual parsing in serving_chat.py",
            "--tool-call-parser of this",
        ),
        # vLLM 0.10.2, model_executor/layers/fused_moe/layer.py.
        ("AssertionError: assert self.quant_method is not None", "kernels for experts"),
        # vLLM 0.25, v1/core/sched/scheduler.py update_from_output.
        ("KeyError: 'chatcmpl-8c1f2a7d'", "--no-async-scheduling"),
    ],
)
def test_a_library_s_own_words_tell_what_helps(text: str, helps: str) -> None:
    assert helps in ending_of(text).remedy


@pytest.mark.parametrize(
    ("text", "means", "helps"),
    [
        # 53199141773: pipeline stages, of which another rank has the layer.
        (
            "`vllm/v1/worker/gpu_model_runner.py:get_attn_backends_for_group` fails with a `KeyError`.",
            "by the layer's name",
            "--tensor-parallel-size alone",
        ),
        # vLLM 0.19.0, v1/core/sched/scheduler.py.
        (
            "It crashes with an AssertionError in vllm/v1/core/sched/scheduler.py:386 (schedule)",
            "counts which tokens",
            "--no-enable-prefix-caching",
        ),
    ],
)
def test_a_place_in_a_person_s_words_is_that_place(text: str, means: str, helps: str) -> None:
    ending = ending_of(text)

    assert means in ending.means
    assert helps in ending.remedy


def test_tokens_of_an_image_that_do_not_agree_are_the_processor_s() -> None:
    """54893815260: transformers 4.5x, processing_pixtral."""
    text = 'vLLM fails at startup with "Mismatch in `image` token count ... Got ids=[0]"'

    assert ending_of(text).cause == "multimodal_input_not_processed"
