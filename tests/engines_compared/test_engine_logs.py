"""Startup lines of other engines: those of published logs, and those that our plans expect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.engines_compared.engine_logs import EngineLog, engine_log_of, read_engine_log
from tests.engines_compared.test_comparison import compared, llama, sglang, tensorrt

LLAMA = """\
llama_context: n_seq_max             = 1
llama_context: n_ctx                 = 4096
llama_context: n_ctx_seq             = 4096
load_tensors:        CUDA0 model buffer size =  4685.30 MiB
llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells
llama_kv_cache:      CUDA0 KV buffer size =    64.00 MiB
llama_kv_cache: size =   64.00 MiB (  4096 cells,   4 layers,  1/1 seqs), K (f16):   32.00 MiB, \
V (f16):   32.00 MiB
llama_kv_cache_iswa: creating     SWA KV cache, size = 1536 cells
llama_kv_cache: size =   60.00 MiB (  1536 cells,  20 layers,  1/1 seqs), K (f16):   30.00 MiB, \
V (f16):   30.00 MiB
sched_reserve:      CUDA0 compute buffer size =   517.00 MiB
"""
SGLANG = """\
[2026-01-20 10:11:12 TP0] Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288
[2026-01-20 10:11:12 TP0] KV Cache is allocated. #tokens: 1669816, K size: 76.44 GB, V size: 76.44 GB
[2026-01-20 10:11:20 TP0] max_total_num_tokens=59868, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=2049, context_len=163840, available_gpu_mem=11.87 GB
"""
TENSORRT = """\
[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 39.39 GiB, \
available: 21.89 GiB
[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool for windowSize 2051: 116617
[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary \
blocks=116617, secondary blocks=0
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache (3731744).
"""


def read(text: str) -> EngineLog:
    found = engine_log_of(text)
    assert found is not None
    return found


def conclusions(log: EngineLog) -> dict[str, int]:
    return {each.name: each.value for each in log.conclusions}


def test_llama_cpp() -> None:
    """Gemma 4 E4B: 4 layers of 2 heads of 512 elements, keys and values, 2 bytes: 16,384 bytes a cell."""
    log = read(LLAMA)
    assert log.engine == "llama.cpp"
    assert conclusions(log) == {
        "longest_request": 4096,
        "bytes_per_token": 4 * 2 * 512 * 2 * 2,
        "cache_bytes": 124 << 20,
    }


def test_sglang() -> None:
    """DeepSeek R1 in issue 4048: capacity 59,868, the longest prompt 59,862."""
    log = read(SGLANG)
    assert log.engine == "sglang"
    found = conclusions(log)
    assert (found["longest_request"], found["longest_prompt"]) == (59_867, 59_862)
    assert found["bytes_per_token"] == pytest.approx(48 * 4 * 256 * 2, rel=1e-3)


def test_tensorrt_llm() -> None:
    log = read(TENSORRT)
    assert log.engine == "tensorrt-llm"
    found = conclusions(log)
    assert found["tokens"] == 3_731_744
    assert found["bytes_per_token"] == pytest.approx(22_528, rel=1e-3)


@pytest.mark.parametrize("engine", [llama(parallel=1), sglang(), tensorrt()])
def test_lines_that_a_plan_expects_are_read(engine: object) -> None:
    (plan,) = compared(engine).plans  # type: ignore[arg-type]
    assert plan.figures is not None
    log = engine_log_of("\n".join(plan.figures.log_lines))
    assert log is not None
    assert log.engine == plan.engine


def test_a_log_of_vllm_is_none_of_theirs() -> None:
    assert engine_log_of("INFO kv_cache_utils.py:1319] GPU KV cache size: 25,200 tokens") is None


@given(st.lists(st.text(max_size=300), max_size=20))
def test_any_text_is_read(lines: list[str]) -> None:
    read_engine_log(enumerate(lines))
