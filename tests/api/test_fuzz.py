"""Whatever is sent, the service answers as it documents, and never fails."""

import asyncio
import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import yaml
from fastapi import FastAPI
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode
from starlette.testclient import TestClient

from service.api.failed_attempts import FailedAttempts
from service.application.schemas.flags.serve import ServeInput
from service.application.schemas.probes.lease import MAX_WAIT_SECONDS
from service.application.services import Services
from service.store.token import Scope
from tests.api.plan_bodies import GEMMA, LLAMA_CONFIG

pytestmark = pytest.mark.slow

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "30"))
"""Requests that are generated for each operation and mode; `make fuzz` asks for 2,000."""
COMMITTED = yaml.safe_load((Path(__file__).parents[2] / "openapi.yaml").read_text("utf-8"))
OPERATIONS = [one["operationId"] for methods in COMMITTED["paths"].values() for one in methods.values()]


UNSENT: tuple[Any, ...] = (None, [])
"""Values of a parameter that leave nothing in an address. Objects become parameters of other names."""
LONGEST_ANSWER = 120
"""Seconds after which a request counts as not answered."""
TOKENS = {
    "probes": Scope.OPERATOR,
    "calibrations": Scope.OPERATOR,
    "workers": Scope.WORKER,
}
"""What opens the operations of each tag, so that what lies behind is asked too."""
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 414, 415, 422, 428, 429, 431, "5xx"]
"""The checker's own statuses for invalid data, and 413, 414 and 431, which answer what is too long."""


@schemathesis.serializer("application/x-ndjson")
def written(_: Any, value: Any) -> bytes:  # noqa: ANN401 - whatever was made up
    return str(value).encode("utf-8", "replace")


@pytest.fixture(scope="session")
def tokens(services: Services) -> dict[Scope, str]:
    store = services.probes.tokens
    return {scope: asyncio.run(store.create("fuzz", scope)) for scope in set(TOKENS.values())}


@pytest.fixture(scope="session")
def document(app: FastAPI) -> Any:  # noqa: ANN401 - schemathesis names no public type for it
    # A check sends wrong tokens, and expects 401 each time.
    app.state.failed_attempts = FailedAttempts(most=1_000_000)
    checks = {"negative_data_rejection": {"expected-statuses": REFUSALS}}
    config = schemathesis.Config.from_dict({"checks": checks})
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=config)


@pytest.fixture(autouse=True)
def workers_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every wait at once: thousands of requests ask an empty queue for a job."""
    clock = itertools.count(step=MAX_WAIT_SECONDS + 1)
    monkeypatch.setattr("service.application.probes.leases.monotonic", lambda: next(clock))


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("operation_id", OPERATIONS)
def test_any_request_is_answered_as_documented(
    operation_id: str,
    mode: GenerationMode,
    document: Any,  # noqa: ANN401 - see above
    tokens: dict[Scope, str],
) -> None:
    operation = document.find_operation_by_id(operation_id)
    scope = next((TOKENS[tag] for tag in operation.definition.raw["tags"] if tag in TOKENS), None)
    headers = {} if scope is None else {"Authorization": f"Bearer {tokens[scope]}"}
    # A question can fit its schema and still name a GPU or a release that does not exist.
    excluded: list[Any] = [schemathesis.checks.CHECKS.get_one("positive_data_acceptance")]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    def answered(case: Any) -> None:  # noqa: ANN401 - see above
        assume(not any(value in UNSENT or isinstance(value, dict) for value in (case.query or {}).values()))
        case.call_and_validate(headers=headers, excluded_checks=excluded, timeout=LONGEST_ANSWER)

    with suppress(Unsatisfiable):  # where nothing is asked, nothing can be asked wrongly
        answered()


COUNTS = st.integers(min_value=1, max_value=1 << 20)
FLAGS = {
    "tensor_parallel_size": st.sampled_from([1, 2, 3, 4, 8, 64, 4096]),
    "pipeline_parallel_size": st.sampled_from([1, 2, 3, 60, 61, 4096]),
    "data_parallel_size": st.sampled_from([1, 2, 8]),
    "decode_context_parallel_size": st.sampled_from([1, 2, 3, 8]),
    "enable_expert_parallel": st.booleans(),
    "dtype": st.sampled_from(["auto", "bfloat16", "float16", "half", "float32", "int8"]),
    "max_model_len": st.sampled_from([-1]) | COUNTS,
    "max_num_batched_tokens": COUNTS,
    "max_num_seqs": COUNTS,
    "max_num_partial_prefills": st.integers(min_value=1, max_value=64),
    "max_long_partial_prefills": st.integers(min_value=1, max_value=64),
    "moe_backend": st.sampled_from(["auto", "triton", "deep_gemm", "cutlass", "marlin", "x"]),
    "gpu_memory_utilization": st.floats(min_value=0.001, max_value=1),
    "kv_cache_memory_bytes": st.integers(min_value=1, max_value=1 << 40),
    "num_gpu_blocks_override": COUNTS,
    "kv_cache_dtype": st.sampled_from(["auto", "bfloat16", "fp8", "nvfp4", "turboquant_k8v4"]),
    "kv_cache_dtype_skip_layers": st.lists(
        st.sampled_from(["0", "59", "60", "sliding_window", "x"]), max_size=3
    ),
    "block_size": st.sampled_from([1, 8, 16, 32, 64, 100, 128, 1 << 20]),
    "attention_backend": st.sampled_from(["FLASH_ATTN", "TRITON_ATTN", "FLASHINFER", "NONE"]),
    "enable_prefix_caching": st.booleans(),
    "enable_chunked_prefill": st.booleans(),
    "async_scheduling": st.booleans(),
    "enforce_eager": st.booleans(),
    "max_cudagraph_capture_size": st.integers(min_value=0, max_value=1024),
    "cudagraph_capture_sizes": st.lists(st.integers(min_value=1, max_value=4096), max_size=4),
    "cudagraph_mode": st.sampled_from(
        ["NONE", "piecewise", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]
    ),
    "optimization_level": st.integers(min_value=0, max_value=3),
    "performance_mode": st.sampled_from(["balanced", "interactivity", "throughput"]),
    "hf_overrides": st.dictionaries(st.sampled_from(["rope_theta", "x", "text_config"]), COUNTS, max_size=2),
    "rope_scaling": st.fixed_dictionaries({"type": st.just("yarn"), "factor": st.floats(1, 8)}),
    "rope_theta": st.floats(min_value=1, max_value=1e6),
    "runner": st.sampled_from(["auto", "generate", "pooling", "x"]),
    "convert": st.sampled_from(["auto", "none", "embed", "classify", "x"]),
    "environment": st.dictionaries(
        st.sampled_from(["VLLM_ATTENTION_BACKEND", "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "X"]),
        st.sampled_from(["1", "FLASHINFER", ""]),
    ),
    "prefix_match_unit": st.sampled_from([1, 16, 128, 1000]),
    "indexer_kv_dtype": st.sampled_from(["auto", "fp8", "mxfp4", "nvfp4", "bf16"]),
    "use_fp4_indexer_cache": st.booleans(),
    "kv_connector": st.sampled_from(["NixlConnector", "LMCacheConnectorV1", "MultiConnector", "X"]),
    "kv_role": st.sampled_from(["kv_producer", "kv_consumer", "kv_both"]),
    "disable_hybrid_kv_cache_manager": st.booleans(),
    "mamba_cache_mode": st.sampled_from(["all", "align", "none"]),
    "mamba_block_size": COUNTS,
    "mamba_cache_dtype": st.sampled_from(["auto", "float16", "float32", "bfloat16"]),
    "mamba_ssm_cache_dtype": st.sampled_from(["auto", "float16", "float32", "bfloat16"]),
    "quantization": st.sampled_from(["fp8", "awq", "humming", "mxfp8", "experts_int8", "x"]),
    "language_model_only": st.booleans(),
    "cpu_offload_gb": st.floats(min_value=0, max_value=1 << 14),
    "offload_backend": st.sampled_from(["auto", "uva", "prefetch"]),
    "cpu_offload_params": st.lists(st.sampled_from(["experts", "mlp.experts", "w2_weight"]), max_size=2),
    "offload_group_size": st.integers(min_value=0, max_value=1 << 12),
    "offload_num_in_group": st.integers(min_value=1, max_value=1 << 12),
    "offload_prefetch_step": st.integers(min_value=0, max_value=1 << 12),
    "offload_params": st.lists(st.sampled_from(["experts", "qkv_proj", "x.y"]), max_size=2),
    "limit_mm_per_prompt": st.dictionaries(
        st.sampled_from(["image", "video", "audio", "x"]),
        st.integers(0, 9) | st.fixed_dictionaries({}, optional={"count": st.integers(0, 9), "width": COUNTS}),
    ),
    "mm_encoder_tp_mode": st.sampled_from(["weights", "data"]),
    "enable_multimodal_encoder_data_parallel": st.booleans(),
    "mm_encoder_attn_backend": st.sampled_from(["FLASH_ATTN", "torch_sdpa", "x"]),
    "mm_processor_kwargs": st.dictionaries(
        st.sampled_from(["max_pixels", "size", "images_kwargs"]),
        st.integers() | st.dictionaries(st.sampled_from(["longest_edge", "max_pixels"]), st.integers()),
    ),
    "mm_processor_cache_gb": st.floats(0, 64),
    "skip_mm_profiling": st.booleans(),
    "video_pruning_rate": st.floats(0, 0.99),
    "mm_ipc_gpu_memory_gb": st.floats(0, 1 << 14),
    "api_server_count": st.integers(1, 16),
    "enable_lora": st.booleans(),
    "max_loras": st.integers(1, 64),
    "max_lora_rank": st.sampled_from([1, 8, 13, 16, 512, 4096]),
    "max_cpu_loras": st.integers(1, 64),
    "lora_extra_vocab_size": st.sampled_from([0, 256, 512]),
    "lora_dtype": st.sampled_from(["auto", "bfloat16", "float16", "x"]),
    "fully_sharded_loras": st.booleans(),
    "lora_target_modules": st.lists(st.sampled_from(["q_proj", "qkv_proj", "experts"]), max_size=2),
    "enable_tower_connector_lora": st.booleans(),
    "enable_eplb": st.booleans(),
    "eplb_config": st.fixed_dictionaries({}, optional={"num_redundant_experts": st.integers(0, 64)}),
    "num_redundant_experts": st.integers(0, 64),
    "enable_dbo": st.booleans(),
    "all2all_backend": st.sampled_from(["naive", "deepep_low_latency", "x"]),
    "enable_sleep_mode": st.booleans(),
    "enable_cumem_allocator": st.booleans(),
    "swap_space": st.floats(0, 64),
    "kv_offloading_size": st.floats(0, 64),
    "kv_offloading_backend": st.sampled_from(["native", "lmcache"]),
    "speculative_config": st.fixed_dictionaries(
        {},
        optional={
            "method": st.sampled_from(
                ["mtp", "ngram", "suffix", "eagle", "eagle3", "draft_model", "medusa", "x"]
            ),
            "model": st.sampled_from(["openai/gpt-oss-20b", "Qwen/Qwen3.6-35B-A3B", "nobody/eagle-none"]),
            "num_speculative_tokens": st.integers(min_value=1, max_value=64),
            "draft_tensor_parallel_size": st.sampled_from([1, 2, 3]),
            "parallel_drafting": st.booleans(),
        },
    ),
}
MODELS = st.sampled_from(
    [
        {"model": GEMMA["model"]},
        {"model": "Qwen/Qwen3.6-35B-A3B"},
        {"model": "openai/gpt-oss-20b"},
        {"model": "deepseek-ai/DeepSeek-V3"},
        {"config": LLAMA_CONFIG},
    ]
)


def test_every_flag_is_tried() -> None:
    assert FLAGS.keys() == ServeInput.model_fields.keys()


QUESTIONS = st.builds(
    lambda model, serve, release, gpu, prompt: {
        **model,
        "engine": {"version": release},
        "gpus": [gpu],
        "serve": serve,
        "workload": prompt and {"prompt_tokens": prompt},
    },
    model=MODELS,
    serve=st.fixed_dictionaries({}, optional=FLAGS),
    release=st.sampled_from(["0.19.0", "0.20.2", "0.24.0", "0.32.0"]),
    gpu=st.sampled_from(["t4-16gb", "rtx-3090-24gb", "h100-sxm-80gb"]),
    prompt=st.none() | COUNTS,
)


@given(question=QUESTIONS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flags_are_answered(question: dict[str, Any], client: TestClient) -> None:
    reply = client.post("/plan", json={**question, "include": ["candidates"]})
    assert reply.status_code < 500, reply.text
    if reply.status_code == 200:
        (plan,) = reply.json()["plans"]
        for candidate in plan["candidates"]:
            assert candidate["starts"] or candidate["verdict"] != "starts"
            assert candidate["starts"] is (candidate["kv_cache"] is not None)
            assert candidate["error"] is None or not candidate["starts"]
            assert candidate["error"] is not None or candidate["verdict"] != "does_not_start"
