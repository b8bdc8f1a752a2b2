"""Releases, GPUs and models that stand in prose, in paths and in commands within sentences, as people
paste them."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.text.long_logs import condense

RELEASES = {
    "I'm using the latest published version of vLLM (version: 0.6.2). Any help is appreciated.": "0.6.2",
    "[Bug]: vllm docker v0.11.2 failed to run Qwen3-VL-30B-A3B-Instruct": "0.11.2",
    'File "/nix/store/w6-python3.12-vllm-0.10.0/lib/python3.12/site-packages/vllm/envs.py", line 5': "0.10.0",
    "/opt/vllm0.10/bin/python -m vllm.entrypoints.openai.api_server": "0.10",
    "It happens with version 0.9.1 of vLLM only": "0.9.1",
    "I use vLLM v0.11 on two cards": "0.11",
    "vllm with torch 2.5.1 and CUDA 12.4": None,
    "It works with vllm 0.3.3. It does not work with vllm 0.4.2": "0.4.2",
    "we used vllm 0.6.3, but after upgrading it fails": None,
    "It does not work with vllm 0.8.5": "0.8.5",
    "vLLM at 0.9 of the memory": None,
    "| vLLM | 0.7.3": "0.7.3",
    "| **vLLM version** | `v0.9.1` | main |": "0.9.1",
}
"""Lines, and the release that each names: vllm-project/vllm#9054, #29469, #21747, #17904."""

MENTIONED = {
    "Same machine, 2x Nvidia L40s": {"L40", "L40S"},
    "tried to launch it on 4xP100 with -tp 4": {"P100"},
    "a node of 8 H100s.": {"H100"},
    "two A100": {"A100"},
}
"""Lines, and cards that each names: vllm-project/vllm#13981, sasha0552/pascal-pkgs-ci#5."""


@pytest.mark.parametrize(("line", "release"), RELEASES.items())
def test_a_release_is_read_in_prose_and_in_paths(line: str, release: str | None) -> None:
    assert read_log(line).around.release == release


def test_the_only_release_of_a_text_holds_for_a_start_that_names_none() -> None:
    text = (
        "It failed with `ValueError: Selected backend AttentionBackendEnum.FLASH_ATTN is not valid for this "
        "configuration. Reason: ['kv_cache_dtype not supported']` error.\n\n"
        "(APIServer pid=11412) INFO 07-16 16:42:49 [api_utils.py:345]  ▄▄ ▄█ █     █     █ ▀▄▀ █  "
        "version 0.25.0\n"
    )
    log = read_log(text)
    assert log.release == "0.25.0"
    assert log.starts == 1
    assert log.failure is not None
    assert log.failure.type == "ValueError"


@pytest.mark.parametrize(("line", "names"), MENTIONED.items())
def test_cards_are_read_in_the_plural_and_behind_a_number(line: str, names: set[str]) -> None:
    assert names <= set(read_log(line).around.mentioned)


@pytest.mark.parametrize(
    ("line", "capability"),
    [
        # CUDA C++ programming guide, appendix compute capabilities: Turing, Ampere, Ada.
        ("20-series GPUs do not support the `sinks` parameter", "7.5"),
        ("the 30 series has the same problem", "8.6"),
        ("Triton only supports CUDA Capability >= 7.0, but your device is of CUDA capability 6.0", "6.0"),
        ("The quantization method fp8 needs more. Minimum capability: 90. Current capability: 86.", "8.6"),
        ("Minimum capability: 90.", None),
    ],
)
def test_the_capability_is_read_where_no_card_is_named(line: str, capability: str | None) -> None:
    assert read_log(line).around.capability == capability


def test_a_call_of_the_cpu_backend_shows_the_platform() -> None:
    frame = 'File "/x/site-packages/vllm/v1/attention/backends/cpu_attn.py", line 587, in forward'
    offload = 'File "/x/site-packages/vllm/v1/kv_offload/cpu.py", line 87, in load'
    assert read_log(frame).around.platform == "cpu"
    assert read_log(offload).around.platform is None


def test_images_and_files_show_the_platform() -> None:
    assert read_log("image: vllm/vllm-openai-rocm:v0.19.0").around.platform == "rocm"
    assert read_log("WARNING 03-04 17:31:42 hpu_model_runner.py:2101] not warmed-up").around.platform == "hpu"


def test_a_command_in_a_sentence_ends_at_its_mark() -> None:
    # vLLM 0.10.0, a package of Nix
    log = read_log("Got some error testing `./result/bin/vllm serve Qwen/Qwen2.5-1.5B-Instruct`:\n")
    assert log.model == "Qwen/Qwen2.5-1.5B-Instruct"


def test_a_value_that_was_cut_names_no_model() -> None:
    text = (
        "vllm serve Qwen/Qwen3-0.6B --gpu-memory-utilization 0.8\n"
        "(APIServer pid=1) INFO 05-22 10:02:31 [utils.py:278] non-default args: {'model_tag': "
        "'/home/m/models--Qw"
    )
    assert read_log(text).model == "Qwen/Qwen3-0.6B"


def test_a_variable_is_no_model() -> None:
    assert read_log("vllm serve $model_path --tensor-parallel-size 8\n").model is None


def test_the_dump_of_a_failed_step_names_the_release() -> None:
    # vLLM 0.11.1, logging_utils/dump_input.py
    line = (
        "(EngineCore_DP0 pid=6) ERROR 10-06 13:28:27 [logging_utils/dump_input.py:69] Dumping input "
        "data for V1 "
        "LLM engine (v0.11.1) with config: model='a/b'"
    )
    assert read_log(line).release == "0.11.1"


def test_a_command_is_found_in_a_file_as_in_a_text() -> None:
    # vllm-project/vllm#12239: an image of one's own, marked on one line.
    text = (
        "I ran this.\n```sudo docker run --rm -p 8000:8000 me/vllm-cputest --model "
        "meta-llama/Llama-3.2-1B-Instruct```\n"
    )
    for log in (text, condense(iter([text.encode()]))):
        assert read_log(log).model == "meta-llama/Llama-3.2-1B-Instruct"


def test_a_manifest_whose_end_was_cut_still_names_the_model() -> None:
    # vllm-project/vllm#14025
    text = (
        "        image: vllm/vllm-openai:v0.7.3\n"
        '        args: [ "--model", "meta-llama/Llama-3.1-8B-Instruct", \n'
        '                "--gpu-memory-utilization", "0.8", \n'
        '                "--distributed-executor-backend", "mp",'
    )
    log = read_log(f"# [Bug]: it hangs\n\n{text}")
    assert log.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert log.flags["gpu_memory_utilization"] == 0.8


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        # Names of models and of engines hold a letter and a number as cards do.
        ("GGUF DeepSeek-V4 is not supported", ()),
        ("serving deepseek-ai/DeepSeek-V2-Lite on the V1 engine", ()),
        ("Qwen3-30B-A3B fails, L2 cache, NovaSky Sky-T1-32B", ()),
        ("on 8x H100, two L40S and a T4", ("H100", "L40S", "T4")),
        ("fails on MI300X (gfx942)", ("MI300X",)),
    ],
)
def test_a_card_is_not_read_out_of_a_name(text: str, cards: tuple[str, ...]) -> None:
    assert set(read_log(text).around.mentioned) == set(cards)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("\u6211\u4f7f\u7528vllm 0.6.3\u7248\u672c\u90e8\u7f72", "0.6.3"),
        ("vllm\u7248\u672c\uff1a0.6.3.post1\uff0c\u62a5\u9519", "0.6.3.post1"),
        ("vllm\u7684\u7248\u672c\u662fv0.9.2\u3002", "0.9.2"),
        ("\u4f7f\u7528vllm==0.8.4\uff0c\u51fa\u9519", "0.8.4"),
    ],
)
def test_a_release_is_read_between_chinese_words(text: str, release: str) -> None:
    assert read_log(text).around.release == release
