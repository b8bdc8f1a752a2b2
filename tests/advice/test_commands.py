"""Spellings of vLLM's own parser, each as its documentation and source give it."""

import pytest

from service.engines.flags import ServeFlags
from tests.advice.commands import (
    IGNORED,
    NOT_MODELLED,
    SAVING,
    read_command,
)


@pytest.mark.parametrize(
    ("words", "serve"),
    [
        (["-tp", "8"], {"tensor_parallel_size": 8}),
        (["--tensor-parallel-size=8"], {"tensor_parallel_size": 8}),
        (["--tensor_parallel_size", "8"], {"tensor_parallel_size": 8}),
        (["-dp", "2", "-pp", "4"], {"data_parallel_size": 2, "pipeline_parallel_size": 4}),
        (["-dcp=8"], {"decode_context_parallel_size": 8}),
        (["--no-enable-prefix-caching"], {"enable_prefix_caching": False}),
        (["--enable-prefix-caching"], {"enable_prefix_caching": True}),
        (["--max-model-len", "32k"], {"max_model_len": 32_000}),
        (["--max-model-len", "32K"], {"max_model_len": 32_768}),
        (["--max-model-len", "1.5k"], {"max_model_len": 1_500}),
        (["--max-model-len", "auto"], {"max_model_len": -1}),
        (["--max-model-len auto"], {"max_model_len": -1}),
        (["--max-model-len", "-1"], {"max_model_len": -1}),
        (["--gpu-memory-utilization=0.9"], {"gpu_memory_utilization": 0.9}),
        (["--kv-cache-memory", "10737418240"], {"kv_cache_memory_bytes": 10 << 30}),
        (["--attention-config.backend", "FLASHINFER"], {"attention_backend": "FLASHINFER"}),
        (['--attention-config={"backend": "FLASH_ATTN"}'], {"attention_backend": "FLASH_ATTN"}),
        (
            ["--compilation-config", '{"cudagraph_capture_sizes":[4,8,500]}'],
            {"max_cudagraph_capture_size": 500},
        ),
        (
            ["--speculative-config", '{"method":"mtp","num_speculative_tokens":2}'],
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
        ),
        (
            ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", "5"],
            {"speculative_config": {"method": "mtp", "num_speculative_tokens": 5}},
        ),
        (["-cc.cudagraph_capture_sizes", "[1,2,4]"], {"max_cudagraph_capture_size": 4}),
        (["-O3", "-tp=2"], {"tensor_parallel_size": 2}),
        (["--kv-cache-dtype", "fp8", "..."], {"kv_cache_dtype": "fp8"}),
    ],
)  # fmt: skip
def test_spellings_of_one_flag_are_one_flag(words: list[str], serve: dict[str, object]) -> None:
    assert read_command(words).serve == serve


def test_flags_are_sorted_by_whether_they_can_change_memory() -> None:
    command = read_command(
        ["--port", "8000", "--moe-backend", "marlin", "--enable-auto-tool-choice", "--strange-flag", "x"],
        {"NCCL_SOCKET_IFNAME": "eth0", "VLLM_USE_DEEP_GEMM": "0", "SOME_VARIABLE": "1"},
    )

    assert command.serve == {}
    assert set(command.ignored) == {"port", "enable_auto_tool_choice", "NCCL_SOCKET_IFNAME"}
    assert set(command.not_modelled) == {"moe_backend", "VLLM_USE_DEEP_GEMM"}
    assert set(command.unknown) == {"strange_flag", "SOME_VARIABLE"}


def test_keys_of_a_json_value_are_sorted_one_by_one() -> None:
    command = read_command(
        ["--attention-config", '{"backend":"FLASHINFER_MLA","use_fp4_indexer_cache":true}']
    )

    assert command.serve == {"attention_backend": "FLASHINFER_MLA"}
    assert command.not_modelled == command.saving == ("attention_config.use_fp4_indexer_cache",)


def test_the_older_variable_names_the_backend() -> None:
    assert read_command([], {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}).serve == {
        "attention_backend": "FLASHINFER"
    }


def test_flags_of_a_log_are_read_as_a_command() -> None:
    flags = {"tensor_parallel_size": 8, "enable_expert_parallel": True, "max_model_len": 32768}

    assert read_command(flags).serve == flags


def test_no_flag_stands_in_two_lists() -> None:
    assert not IGNORED.keys() & NOT_MODELLED.keys()
    assert not (IGNORED.keys() | NOT_MODELLED.keys()) & set(ServeFlags.__dataclass_fields__)
    assert all(name in NOT_MODELLED or name.startswith("VLLM_") for name in SAVING)
