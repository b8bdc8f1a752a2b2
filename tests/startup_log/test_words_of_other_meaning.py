"""Sentences that share words with a symptom and are about something else, so that its cause is not named."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

OTHERS = [
    # An opinion, and a switch of something other than thinking.
    ("[Bug]: I think prefix caching has no effect", "thinking_not_switched"),
    ("[Bug]: I think prefix caching has no effect", "reasoning_not_separated"),
    ("[Bug]: speculative decoding has no effect when thinking is enabled", "thinking_not_switched"),
    ("[Bug]: Qwen3 in thinking mode crashes and cannot disable CUDA graphs", "thinking_not_switched"),
    # Chunks of a prompt, time to a chunk, a model that does not end.
    ("[Bug]: the last chunk is wrong with chunked prefill", "answer_field_wrong"),
    ("[Bug]: first chunk takes always 30 seconds", "answer_field_wrong"),
    ("[Bug]: finish_reason is always length, the model never stops", "answer_field_wrong"),
    # Buckets of shapes, and the roles of messages and of instances.
    ("[Bug]: HPU bucket warmup is not allowed with role decode", "object_storage_refused"),
    ("[Bug]: KV cache bucket size fails when the role is set to prefill", "object_storage_refused"),
    # What a library has none of that is no class.
    ("[Bug]: transformers has no effect on speed when the config class differs", "transformers_too_old"),
    (
        "[Bug]: transformers backend does not have CUDA graph support for Qwen3ForCausalLM",
        "transformers_too_old",
    ),
    # Limits of batches and of concurrency.
    ("[Bug]: max_num_seqs limit is 256 tokens, it fails to start: CUDA error", "length_beyond_model"),
    ("[Bug]: KV cache cannot hold more than one sequence at a time", "kv_cache_smaller_than_one_request"),
    # Numbers of a tensor and of a driver beside a release of CUDA.
    ("[Bug]: vllm on cuda 12 has a shape mismatch in fused MoE", "build_does_not_match"),
    ("[Bug]: libcudart error: CUDA initialization: driver too old", "build_does_not_match"),
    ("[Bug]: flash attention breaks accuracy in every vllm that is installed", "build_does_not_match"),
    # Figures of a benchmark, and parameters with the names of adapters.
    ("[Bug]: the perf metrics show negative TTFT in benchmark_serving", "metrics_not_as_expected"),
    ("[Bug]: a tensor of this name already exists in the adapter state dict", "adapter_already_loaded"),
    # Programs and hosts other than the engine's.
    ("[Bug]: the build fails with nvcc: command not found", "program_not_found"),
    ("[Bug]: HTTP 503 from a mirror while it downloads", "server_not_reached"),
    ("[Bug]: another engine (SGLang) works, vLLM fails with the same model", "memory_taken_by_others"),
    ("[Bug]: machine crash while compiling the CUDA graphs", "compiler_killed"),
    ("[Bug]: PP-OCR fails to load", "pipeline_failed"),
    ("[Doc]: Prometheus metrics are missing in the documentation", "metrics_not_as_expected"),
    ("[Bug]: stale unix socket connections leak memory", "address_in_use"),
    ("[Bug]: GPTQ with TP=2: weight shape error in NCCL broadcast", "quantization_blocks_do_not_divide"),
    ("[Bug]: i915 laptop: the CPU backend of vLLM crashes", "xpu_fault"),
    ("[Bug]: the endpoint does not expose usage in a stream", "route_not_of_this_task"),
    ("[Bug]: KV cache metrics stuck at 0 and the engine hangs", "metrics_not_as_expected"),
    ("[Bug]: with CUDA 12 torch is in a deadlock after a fork", "build_does_not_match"),
    # What did not happen.
    ("The engine starts, OOM is avoided by the small batch size of this start", "out_of_memory"),
    # Files within a folder that is there.
    ("[Bug]: the tokenizer cannot find its vocab in the model path", "model_folder_not_there"),
    # Questions, and the form of an answer.
    ("\u51c6\u786e\u7387\u95ee\u9898\uff1a\u600e\u4e48\u6d4b\u8bd5\u51c6\u786e\u7387\uff1f", "wrong_output"),
    (
        "[Bug]: \u8f93\u51fa\u7ed3\u679c\u683c\u5f0f\u9519\u8bef\uff0cJSON \u89e3\u6790\u5931\u8d25",
        "wrong_output",
    ),
    # A network that is none of NCCL's.
    ("[Bug]: a transient InfiniBand error ends the worker with RuntimeError: BAD_STATUS", "nccl"),
    ("[Bug]: the new rank 0 blocks forever in the rendezvous, RDMA state is left over", "nccl"),
    # What a person did not set.
    ("[Bug]: fails because the HF token is none", "engine_fault"),
]


@pytest.mark.parametrize(("title", "cause"), OTHERS)
def test_words_of_another_meaning_name_no_cause(title: str, cause: str) -> None:
    found = diagnose(read_log(f"{title}\n\nDetails follow.\n"), None)

    assert found is None or found.cause != cause


def test_an_address_in_the_text_of_a_probe_is_not_its_scheme() -> None:
    """Kubernetes, pkg/probe/http: the answer 503 is the server's, which is not ready."""
    early = diagnose(
        read_log(
            "Readiness probe failed: HTTP probe failed with statuscode: 503, see https://kubernetes.io/docs\n"
        ),
        None,
    )
    wrong = diagnose(
        read_log(
            'Readiness probe failed: Get "https://10.0.0.4:8000/health": http: server gave HTTP response to '
            "HTTPS client\n"
        ),
        None,
    )

    assert early is not None
    assert wrong is not None
    assert "before it was ready" in early.means
    assert "HTTPS" in wrong.means


def test_a_package_that_is_absent_is_not_called_another_version() -> None:
    absent = diagnose(read_log("ValueError: Ray is not installed. Ray version >= 2.9 is needed\n"), None)

    assert absent is not None
    assert "is not installed" in absent.means


MISTRAL = """\
{above}
Traceback (most recent call last):
  File "/site-packages/vllm/transformers_utils/tokenizers/mistral.py", line 200, in from_pretrained
    tokenizer = MistralTokenizer.from_file(file)
  File "/site-packages/mistral_common/tokens/tokenizers/tekken.py", line 130, in from_file
    raise ValueError(message)
ValueError: {message}
"""


@pytest.mark.parametrize(
    ("above", "message", "newer"),
    [
        # mistral-common, tokens/tokenizers/tekken.py Tekkenizer.from_file
        ("", "Unknown version: v13 in tekken.json. Make sure to use a valid version string", True),
        ("CUDA v11.8, driver v135", "the vocabulary of tekken.json is empty", False),
    ],
)
def test_a_version_of_cuda_is_none_of_a_tokenizer(above: str, message: str, newer: bool) -> None:
    found = diagnose(read_log(MISTRAL.format(above=above, message=message)), None)

    assert found is not None
    assert ("the model is newer than that package" in found.means) is newer


@pytest.mark.parametrize(
    ("said", "is_reason"),
    [("Not clear to us yet, any hint is welcome", False), ("The wheel was built for CUDA 13", True)],
)
def test_a_label_above_no_reason_gives_none(said: str, is_reason: bool) -> None:
    around = read_log(f"[Bug]: The server crashes\n\n### Root cause\n{said}\n").around

    assert (around.reason is not None) is is_reason
