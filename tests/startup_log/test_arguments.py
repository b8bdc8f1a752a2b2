import pytest

from service.startup_log.environment.arguments import command_arguments, logged_arguments, logged_config
from service.startup_log.text.lines import read_lines


@pytest.mark.parametrize(
    ("command", "model", "flags", "unmodelled"),
    [
        ("vllm serve org/m", "org/m", {}, ()),
        ("+ vllm serve --model org/m --port 80", "org/m", {}, ("port",)),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model org/m --max-model-len 4096",
            "org/m",
            {"max_model_len": 4096},
            (),
        ),
        ("vllm serve org/m -tp 2 -pp=4 -q fp8", "org/m", "tp", ()),
        ("vllm serve org/m --max-model-len 32K", "org/m", {"max_model_len": 32768}, ()),
        ("vllm serve org/m --max-model-len 1.5k", "org/m", {"max_model_len": 1500}, ()),
        ("vllm serve org/m --max-model-len auto", "org/m", {"max_model_len": -1}, ()),
        ("vllm serve org/m --max-model-len -1", "org/m", {"max_model_len": -1}, ()),
        ("vllm serve org/m --gpu_memory_utilization=.9", "org/m", {"gpu_memory_utilization": 0.9}, ()),
        ("vllm serve --enforce-eager org/m", "org/m", {"enforce_eager": True}, ()),
        (
            "vllm serve org/m --no-enable-prefix-caching --trust-remote-code",
            "org/m",
            {"enable_prefix_caching": False},
            ("trust_remote_code",),
        ),
        (
            "vllm serve org/m --kv-cache-dtype-skip-layers 0 1 sliding_window --enforce-eager",
            "org/m",
            {"kv_cache_dtype_skip_layers": ["0", "1", "sliding_window"], "enforce_eager": True},
            (),
        ),
        (
            """vllm serve org/m --speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'""",
            "org/m",
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
            (),
        ),
        (
            "vllm serve org/m --speculative-config.method mtp --speculative-config.num_speculative_tokens 2",
            "org/m",
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
            (),
        ),
        ("vllm serve org/m --max-num-seqs 8 | tee log --max-num-seqs 9", "org/m", {"max_num_seqs": 8}, ()),
        ("vllm serve org/m \\\n  --max-num-seqs 8 \\\n  --enforce-eager\nother", "org/m", "lines", ()),
        ("vllm serve 'unclosed --max-num-seqs 8", "'unclosed", {"max_num_seqs": 8}, ()),
        ("vllm serve org/m --max-num-seqs many", "org/m", {}, ()),
    ],
)
def test_a_command_is_read_as_a_shell_and_the_engine_read_it(
    command: str, model: str, flags: object, unmodelled: tuple[str, ...]
) -> None:
    spelt = {
        "tp": {"tensor_parallel_size": 2, "pipeline_parallel_size": 4, "quantization": "fp8"},
        "lines": {"max_num_seqs": 8, "enforce_eager": True},
    }
    specified = command_arguments(read_lines(command))

    assert specified is not None
    assert specified.model == model
    assert specified.flags == (spelt[flags] if isinstance(flags, str) else flags)
    assert specified.unmodelled == unmodelled


def test_logged_arguments_are_read() -> None:
    """As vLLM 0.33.0's log_non_default_args prints a namespace."""
    line = (
        "(APIServer pid=1) INFO 04-22 15:13:39 [utils.py:233] non-default args: {'model_tag': 'org/m', "
        "'api_key': ['*'], 'model': 'org/m', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95, "
        "'enable_prefix_caching': False, 'limit_mm_per_prompt': {'image': 2}, "
        "'attention_backend': <AttentionBackendEnum.FLASH_ATTN: 'vllm.v1.attention'>, "
        "'kv_cache_dtype_skip_layers': ['0'], 'port': 8000}"
    )
    specified = logged_arguments(read_lines(line))

    assert specified is not None
    assert specified.model == "org/m"
    assert specified.flags == {
        "max_model_len": 8192,
        "gpu_memory_utilization": 0.95,
        "enable_prefix_caching": False,
        "attention_backend": "FLASH_ATTN",
        "kv_cache_dtype_skip_layers": ["0"],
        "limit_mm_per_prompt": {"image": 2},
    }
    assert specified.unmodelled == ("api_key", "port")


def test_a_logged_value_that_is_not_of_its_flags_kind_is_left_out() -> None:
    specified = logged_arguments(
        read_lines(
            "non-default args: {'model': 'org/m', 'attention_backend': 5, 'kv_cache_dtype': None, "
            "'max_model_len': 'long', 'enforce_eager': 1, 'max_num_seqs': 8}"
        )
    )

    assert specified is not None
    assert specified.flags == {"max_num_seqs": 8}


def test_the_logged_configuration_tells_what_flags_became() -> None:
    """As vLLM 0.19.0's VllmConfig prints itself; what it holds besides is not looked at."""
    line = (
        "Initializing a V1 LLM engine (v0.19.0) with config: model='org/m', "
        "speculative_config=SpeculativeConfig(method='mtp', model='x', num_spec_tokens=3), "
        "tokenizer='org/m', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, "
        "quantization=None, enforce_eager=False, kv_cache_dtype=fp8_e4m3, "
        "enable_prefix_caching=True, enable_chunked_prefill=True, compilation_config={'mode': 3, 'a': [1]}"
    )
    specified = logged_config(read_lines(line))

    assert specified is not None
    assert specified.model == "org/m"
    assert specified.flags == {
        "dtype": "bfloat16",
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "enforce_eager": False,
        "kv_cache_dtype": "fp8_e4m3",
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
    }


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: With `vllm serve`, you should provide the model as a positional argument",
        "See vllm serve --help for more details",
    ],
)
def test_words_about_a_command_are_none(line: str) -> None:
    assert command_arguments(read_lines(line)) is None


@pytest.mark.parametrize(
    "before", ["$ ", "# ", "+ ", "CUDA_VISIBLE_DEVICES=0,1 ", "exec ", "Command: ", "cd /x && ", "sudo "]
)
def test_a_command_stands_behind_a_prompt_or_another(before: str) -> None:
    specified = command_arguments(read_lines(f"{before}vllm serve org/m --max-num-seqs 8"))

    assert specified is not None
    assert specified.model == "org/m"


def test_a_log_without_any_of_them_tells_nothing() -> None:
    lines = read_lines("GPU KV cache size: 1 tokens")

    assert logged_arguments(lines) is logged_config(lines) is command_arguments(lines) is None
