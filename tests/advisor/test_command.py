import shlex

import pytest

from service.advisor.command import serve_command
from service.engines.flags import ServeFlags
from service.engines.speculation import SpeculativeConfig


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (ServeFlags(), []),
        (ServeFlags(tensor_parallel_size=1), []),
        (ServeFlags(tensor_parallel_size=2), ["--tensor-parallel-size", "2"]),
        (ServeFlags(enforce_eager=True), ["--enforce-eager"]),
        (ServeFlags(enable_prefix_caching=True), ["--enable-prefix-caching"]),
        (ServeFlags(async_scheduling=False), ["--no-async-scheduling"]),
        (ServeFlags(gpu_memory_utilization=0.96), ["--gpu-memory-utilization", "0.96"]),
        (ServeFlags(kv_cache_memory_bytes=7), ["--kv-cache-memory-bytes", "7"]),
        (ServeFlags(kv_cache_dtype_skip_layers=("0", "1")), ["--kv-cache-dtype-skip-layers", "0", "1"]),
        (ServeFlags(max_model_len=-1), ["--max-model-len", "-1"]),
        (
            ServeFlags(speculative_config=SpeculativeConfig(method="mtp", num_speculative_tokens=2)),
            ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 2}'],
        ),
    ],
)
def test_only_what_differs_from_the_defaults_is_said(flags: ServeFlags, words: list[str]) -> None:
    assert shlex.split(serve_command("org/model", flags)) == ["vllm", "serve", "org/model", *words]


def test_a_hostile_name_cannot_leave_its_word() -> None:
    assert shlex.split(serve_command("a/b; rm -rf $HOME `id`", ServeFlags()))[2] == "a/b; rm -rf $HOME `id`"
