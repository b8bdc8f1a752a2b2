"""Pieces of logs and of issues as people paste them: what stands beside an error decides what it says."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

PRINTED = (
    "INFO 07-09 09:18:18 [api_server.py:1034] vLLM API server version {release}\n"
    "INFO 07-09 09:18:18 [api_server.py:1035] args: Namespace(host=None, port=8000, "
    "model='gaunernst/gemma-3-12b-it-qat-autoawq', dtype='auto', kv_cache_dtype='auto', "
    "max_model_len=131072, "
    "pipeline_parallel_size=1, tensor_parallel_size=2, data_parallel_size=1, enable_expert_parallel=False, "
    "block_size={block}, enable_prefix_caching={prefix}, swap_space=4, cpu_offload_gb=0, "
    "gpu_memory_utilization=0.9, max_num_batched_tokens=None, max_num_partial_prefills=1, "
    "max_long_partial_prefills=1, max_num_seqs={seqs}, enforce_eager=False, enable_lora=False, max_loras=1, "
    "max_lora_rank=16, lora_extra_vocab_size=256, lora_dtype='auto', fully_sharded_loras=False, "
    "enable_chunked_prefill={chunks}, enable_sleep_mode=False)\n"
)
"""Kiloma-Advanced-Solutions/PLG_AI, vllm.log: the arguments of `vllm serve ... -tp 2 --max-model-len 131072`
under vLLM 0.8.4, shortened."""
GIVEN = {"max_model_len": 131072, "tensor_parallel_size": 2}


@pytest.mark.parametrize(
    ("release", "printed", "more"),
    [
        ("0.8.4", (None, None, None, None), {}),
        # Defaults of older releases, as vllm-project/vllm#7993 and #10478 print them.
        ("0.6.3", (16, False, 256, None), {}),
        ("0.5.0", (16, False, 256, False), {}),
        # What is a default of an older release was given where the newer one has None.
        (
            "0.8.4",
            (16, False, 256, False),
            {
                "block_size": 16,
                "enable_prefix_caching": False,
                "max_num_seqs": 256,
                "enable_chunked_prefill": False,
            },
        ),
    ],
)
def test_of_all_printed_arguments_those_count_that_are_no_default(
    release: str, printed: tuple[object, ...], more: dict[str, object]
) -> None:
    block, prefix, seqs, chunks = printed
    text = PRINTED.format(release=release, block=block, prefix=prefix, seqs=seqs, chunks=chunks)

    assert read_log(text).flags == GIVEN | more


PROTOBUF = "AttributeError: 'MessageFactory' object has no attribute 'GetPrototype'\n"
CALLED = 'Traceback (most recent call last):\n  File "/x/site-packages/a.py", line 1, in f\n    g()\n'
MEMORY = (
    "INFO 02-12 18:34:14 [__init__.py:190] Automatically detected platform cuda.\n"
    "ERROR 02-12 18:34:19 [core.py:386] torch.OutOfMemoryError: CUDA out of memory. "
    "Tried to allocate 1.74 GiB.\n"
)


def test_what_tensorflow_prints_of_protobuf_at_its_import_is_no_failure() -> None:
    failure = read_log(PROTOBUF * 5 + MEMORY).failure

    assert failure is not None
    assert failure.type == "OutOfMemoryError"
    assert read_log(PROTOBUF * 5).failure is None
    ended = read_log(CALLED + PROTOBUF).failure
    assert ended is not None
    assert ended.type == "AttributeError"


INSPECTED = (
    "I consistently get the following error:\n\nModuleNotFoundError: No module named 'vllm._C'\n\n"
    "INFO 09-12 00:52:19 [__init__.py:241] Automatically detected platform cuda.\n"
    "(APIServer pid=1168) INFO 09-12 00:52:22 [api_server.py:1805] vLLM API server version 0.10.1.1\n"
    "(APIServer pid=1168) ERROR 09-12 00:52:30 [registry.py:424] Error in inspecting model architecture "
    "'Qwen3MoeForCausalLM'\n"
    "(APIServer pid=1168) ERROR 09-12 00:52:30 [registry.py:424] Traceback (most recent call last):\n"
)
"""vllm-project/vllm#24681, which ends here."""
TRANSFER = (
    "Running with vllm/vllm-openai:v0.11.0 configured for offloading I am hitting an assert in vllm.\n"
    "The precise failure is\n"
    "(EngineCore_DP0 pid=58) WARNING 11-18 07:48:24 [worker.py:116] Exception in ('CPU', 'GPU') "
    "transfer 235: AssertionError()\n"
    "(EngineCore_DP0 pid=58) WARNING 11-18 07:48:24 [worker.py:116] Traceback (most recent call last):\n"
)
"""vllm-project/vllm#28950, which ends within the traceback."""
CAPTURED = """\
crashes during CUDA graph capture when `--data-parallel-size > 1`:
ray.exceptions.RayTaskError(AssertionError): ray::RayWorkerWrapper.execute_method()
  File "vllm/model_executor/layers/fused_moe/routed_experts_capturer.py", line 181, in capture
    assert cumsum[-1] == topk_ids.shape[0]
AssertionError
"""
"""vllm-project/vllm#37857."""
COUNTED = (
    "ERROR 02-21 03:07:52 engine.py:400] _sdpa_attention() takes from 8 to 9 positional "
    "arguments but 10 were given\n"
    "ERROR 02-21 03:07:52 engine.py:400] Traceback (most recent call last):\n"
    'ERROR 02-21 03:07:52 engine.py:400]   File "/x/vllm/engine/multiprocessing/engine.py", line 391, '
    "in run_mp_engine\n"
)
"""vllm-project/vllm#13648: on ROCm the engine calls its own function with one argument too many."""
TOKENS = (
    "AssertionError: Sampled token IDs exceed the max model length. Total number of tokens: 1281 > "
    "max_model_len: 1280\n"
)
"""vllm-project/vllm#25120: an assertion of the engine, which ends with it; no request is refused."""
PROCESSOR = (
    "get error message as: `TypeError: Invalid type of HuggingFace proceesor. Expected type: , "
    "but found type: `\n"
)
"""vllm-project/vllm#25073, as the person wrote it."""
IN_IMAGE = "docker run --rm -it -p 8000:8000 vllm/vllm-openai:v0.11.0"
IMAGE = f"""\
It started with command:
{IN_IMAGE} --model org/m --tensor-parallel-size 2
~$ python collect_env.py
Traceback (most recent call last):
  File "/home/k/collect_env.py", line 20, in <module>
    from vllm.envs import environment_variables
ModuleNotFoundError: No module named 'vllm'
"""
"""vllm-project/vllm#26360: the Python of the host need not have the engine."""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (INSPECTED, "build_does_not_match"),
        (TRANSFER, "connector_step_failed"),
        (CAPTURED, "routed_experts_not_captured"),
        (COUNTED, "engine_fault"),
        (TOKENS, "engine_fault"),
        (PROCESSOR, "multimodal_input_not_processed"),
        (IMAGE, None),
        (
            IMAGE.replace("docker run --rm -it -p 8000:8000 vllm/vllm-openai:v0.11.0", "vllm serve"),
            "vllm_not_installed",
        ),
        # A folder of the Hub's cache in a message is no word of the Hub.
        ("ValueError: Unknown frob: v13 in /root/.cache/huggingface/hub/models--o--m/a.json\n", None),
        ("The download from the Hugging Face hub fails again and again.\n", "hub_unavailable"),
    ],
)
def test_what_stands_beside_decides(text: str, cause: str | None) -> None:
    failure = read_log(text).failure

    assert (None if failure is None or failure.cause is None else failure.cause.name) == cause


RAISED = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)\n"
WARNED = (
    "node1:12:34 [1] misc/ipcsocket.cc:80 NCCL WARN UDS: Binding to socket /tmp/nccl-x failed : "
    "Permission denied\n"
)
"""NCCL 2.21, src/misc/ipcsocket.cc ncclIpcSocketInit."""
ADVISED = (
    'node1:12:34 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to '
    "system instablity!\n"
)
"""RCCL, src/init.cc: printed on hosts that work."""


@pytest.mark.parametrize(
    ("text", "line"),
    [(WARNED + RAISED, 1), (ADVISED + WARNED + RAISED, 2), (RAISED + WARNED, 2), (ADVISED + RAISED, 2)],
)
def test_nccl_s_own_warning_is_shown_where_an_error_only_names_its_kind(text: str, line: int) -> None:
    found = diagnose(read_log(text), None)

    assert found is not None
    assert (found.cause, found.line) == ("nccl", line)
    assert ("names" in found.remedy) == ("UDS" in text)


def test_a_condition_behind_not_supported_is_said_as_one() -> None:
    """vllm-project/vllm#25426."""
    said = "NotImplementedError: Auto tool choice is not supported yet unless using Harmony\n"
    found = diagnose(read_log(said), None)

    assert found is not None
    assert "Auto tool choice works only on a condition" in found.means
    assert "Meet the condition (using Harmony)" in found.remedy
