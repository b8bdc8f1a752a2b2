"""A benchmark's result and the metrics of a running engine, as people paste them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.startup_log.log import read_log

HEAD = "============ Serving Benchmark Result ============"
# Published by a user of Llama 3.2 1B (a note on Red Hat's container).
BLOCK = """Serving started
============ Serving Benchmark Result ============
Successful requests:                     100
Benchmark duration (s):                  17.32
Total input tokens:                      102300
Total generated tokens:                  38827
Request throughput (req/s):              5.77
Output token throughput (tok/s):         2241.42
Total Token throughput (tok/s):          8147.03
---------------Time to First Token----------------
Mean TTFT (ms):                          5399.10
Median TTFT (ms):                        6003.49
P99 TTFT (ms):                           6013.25
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          36.13
Median TPOT (ms):                        22.10
P99 TPOT (ms):                           324.17
---------------Inter-token Latency----------------
Mean ITL (ms):                           23.88
==================================================
"""
LIMITED = BLOCK.replace(
    "Benchmark duration", "Maximum request concurrency:             25\nBenchmark duration"
)
# The first line is published (Qwen3-32B with 0.82 of the memory); the names of the others are in
# vLLM 0.19.0, v1/metrics/loggers.py.
METRICS = """# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="573"} 1.0
vllm:num_requests_running{engine="0",model_name="qwen3-32b"} 3.0
vllm:num_requests_running{engine="1",model_name="qwen3-32b"} 5.0
vllm:request_prompt_tokens_sum{engine="0",model_name="qwen3-32b"} 102400.0
vllm:request_prompt_tokens_count{engine="0",model_name="qwen3-32b"} 100.0
vllm:request_generation_tokens_sum{engine="0",model_name="qwen3-32b"} 2.56e+04
vllm:request_generation_tokens_count{engine="0",model_name="qwen3-32b"} 100.0
vllm:request_time_per_output_token_seconds_bucket{engine="0",le="0.01",model_name="qwen3-32b"} 5.0
vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="qwen3-32b"} 2.5
vllm:request_time_per_output_token_seconds_count{engine="0",model_name="qwen3-32b"} 100.0
"""


def test_a_benchmark_without_a_limit() -> None:
    (found,) = read_log(BLOCK).measured
    assert found.line == 2
    assert found.prompt_tokens == 1023
    assert found.output_tokens == pytest.approx(388.27)
    assert (found.tpot_ms, found.ttft_ms) == (22.10, 6003.49)
    assert found.output_tokens_per_second == 2241.42
    # Little's law: 2,241.42 tokens a second, each 22.1 ms after the one before.
    assert found.concurrency == pytest.approx(2241.42 * 0.0221)


def test_a_benchmark_with_a_limit() -> None:
    (found,) = read_log(LIMITED).measured
    assert found.concurrency == 25


def test_several_benchmarks() -> None:
    assert [each.line for each in read_log(BLOCK + LIMITED).measured] == [2, 22]


def test_a_block_without_figures_says_nothing() -> None:
    assert (
        read_log("============ Serving Benchmark Result ============\nSuccessful requests: [n]\n").measured
        == ()
    )
    failed = BLOCK.replace("requests:                     100", "requests:                     0")
    assert read_log(failed).measured == ()


def test_metrics_of_two_engines() -> None:
    log = read_log(METRICS)
    (found,) = log.measured
    assert (found.prompt_tokens, found.output_tokens) == (1024, 256)
    assert found.concurrency == 8
    assert found.tpot_ms == pytest.approx(25)
    assert found.ttft_ms is None
    assert log.served_cache is not None
    assert (log.served_cache.num_gpu_blocks, log.served_cache.block_size) == (573, 16)


def test_metrics_of_an_idle_engine() -> None:
    idle = METRICS.replace("} 3.0", "} 0.0").replace("} 5.0\nvllm:request_p", "} 0.0\nvllm:request_p")
    log = read_log(idle)
    assert log.measured == ()
    assert log.served_cache is not None


@given(st.text(max_size=200), st.text(max_size=60))
@example("", ".")
@example("", "1.2.3")
def test_hostile_figures_do_not_end_in_an_error(between: str, number: str) -> None:
    read_log(
        f"{BLOCK}{between}\n============ Serving Benchmark Result ============\nMean TPOT (ms): {number}\n"
    )
    read_log(
        f'vllm:num_requests_running{{engine="{between}"}} {number}\nvllm:cache_config_info{{{between}}} 1\n'
    )
