"""Whether a log says that the compiled model was in the cache, in the words of the releases' source."""

import pytest

from service.startup_log.log import read_log

FOLDER = "/root/.cache/vllm/torch_compile_cache/torch_aot_compile/4f/rank_0_0/model"


@pytest.mark.parametrize(
    "line",
    [
        "Directly load the compiled graph(s) for dynamic shape from the cache, took 5.264 s",
        "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 1.935 s",
        f"Directly load AOT compilation from path {FOLDER}",
        f"[drafter] Directly load AOT compilation from path {FOLDER}",
    ],
)
def test_a_log_says_that_nothing_was_compiled_anew(line: str) -> None:
    assert read_log(f"INFO vLLM API server version 0.26.0\nINFO {line}\n").found_compiled


@pytest.mark.parametrize(
    "line",
    [
        "[backends.py:370] Compiling a graph for compile range (1, 8192) takes 30.44 s",
        "[monitor.py:34] torch.compile takes 41.10 s in total",
    ],
)
def test_or_that_it_was(line: str) -> None:
    assert not read_log(f"INFO vLLM API server version 0.26.0\nINFO {line}\n").found_compiled
