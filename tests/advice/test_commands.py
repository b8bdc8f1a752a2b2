"""Published commands, whose words are a list and not a text, as the service's reader takes them."""

from service.launch_command.flags.converted_values import human_int
from tests.advice.commands import read_command


def test_the_words_of_a_row_are_flags() -> None:
    command = read_command(["-tp", "8", "--max-model-len auto", "--kv-cache-dtype", "fp8", "..."])

    assert command.serve == {"tensor_parallel_size": 8, "max_model_len": -1, "kv_cache_dtype": "fp8"}
    assert command.unknown == ()
    assert command.reading is not None
    assert any("..." in doubt for doubt in command.reading.doubts())


def test_flags_are_sorted_by_whether_they_can_change_memory() -> None:
    command = read_command(
        [
            "--port",
            "8000",
            "--moe-backend",
            "marlin",
            "--linear-backend",
            "cutlass",
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            "hermes",
            "--strange-flag",
            "x",
        ],
        {"NCCL_SOCKET_IFNAME": "eth0", "VLLM_USE_DEEP_GEMM": "0", "SOME_VARIABLE": "1"},
    )

    assert command.serve == {"moe_backend": "marlin"}
    assert {"port", "enable_auto_tool_choice", "NCCL_SOCKET_IFNAME"} <= set(command.ignored)
    assert {"linear_backend", "VLLM_USE_DEEP_GEMM"} <= set(command.not_modelled)
    assert command.unknown == ("--strange-flag",)


def test_flags_of_a_log_are_read_as_a_command() -> None:
    flags = {"tensor_parallel_size": 8, "enable_expert_parallel": True, "max_model_len": 32768}

    assert read_command(flags).serve == flags


def test_a_decimal_letter_and_a_binary_letter_differ() -> None:
    # vLLM 0.28.0, utils/argparse_utils.py human_readable_int: its own three examples.
    assert [human_int(text) for text in ("1k", "1K", "25.6k")] == [1_000, 1_024, 25_600]
