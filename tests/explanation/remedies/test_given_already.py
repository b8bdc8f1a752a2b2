"""A remedy leaves out what the start was given, or what did not help."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

HANG = "# [Bug]: vLLM gets stuck at pynccl during startup with two GPUs\n\n"
KERNEL = (
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 263168, "
    "Hardware limit: 101376\n"
)


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


def offered(remedy: str, name: str) -> bool:
    """Whether a remedy proposes something, and does not only say that it is there."""
    return name in remedy.partition("given here already")[0].rpartition(".")[0]


@pytest.mark.parametrize(
    "line",
    [
        "export NCCL_P2P_DISABLE=1",
        "docker run -e NCCL_P2P_DISABLE=1 vllm/vllm-openai",
        "HF_HUB_OFFLINE=1 NCCL_P2P_DISABLE=1 vllm serve m/n -tp 2",
        "      - NCCL_P2P_DISABLE=1",
        "      NCCL_P2P_DISABLE: 1",
        'os.environ["NCCL_P2P_DISABLE"] = "1"',
        "I tried NCCL_P2P_DISABLE=1 and it still hangs.",
    ],
)
def test_a_variable_that_is_set_is_not_offered(line: str) -> None:
    assert offered(ending(HANG).remedy, "NCCL_P2P_DISABLE=1")
    assert not offered(ending(HANG + line).remedy, "NCCL_P2P_DISABLE=1")


@pytest.mark.parametrize(
    "line",
    [
        "I have to set NCCL_P2P_DISABLE=1 to load the model.",
        "It works with NCCL_P2P_DISABLE=1.",
        "export NCCL_P2P_DISABLE=0",
    ],
)
def test_what_helps_is_still_offered(line: str) -> None:
    assert offered(ending(HANG + line).remedy, "NCCL_P2P_DISABLE=1")


def test_a_flag_of_the_command_is_not_offered() -> None:
    command = "vllm serve Qwen/Qwen3-8B --enforce-eager\n"
    compiled = 'File "/x/torch/_inductor/runtime/triton_heuristics.py", line 9, in run\n'
    failed = "torch._inductor.exc.InductorError: CompilationError: at 12:4\n"
    assert offered(ending(compiled + failed).remedy, "--enforce-eager")
    assert not offered(ending(command + compiled + failed).remedy, "--enforce-eager")


def test_a_removed_flag_names_what_stands_in_its_place() -> None:
    # vLLM 0.10.2, config/__init__.py ModelConfig.runner; the flag was removed in 0.13.0.
    found = ending("vllm: error: unrecognized arguments: --task embedding")
    assert any("--runner pooling" in each for each in found.offers)
    assert any("(the text names no release)" in each for each in found.offers)
    old = "INFO 03-12 16:53:17 api_server.py:912] vLLM API server version 0.10.2\n"
    late = ending(f"{old}vllm: error: unrecognized arguments: --structured-outputs-config")
    assert [each for each in late.offers if "it came with" in each] == list(late.offers)


def test_an_allocation_larger_than_the_device_is_not_cured_by_shares() -> None:
    # vllm-project/vllm#27786: PyTorch's own words and figures
    words = (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {} GiB. GPU 0 has a total "
        "capacity of 15.98 GiB"
    )
    assert any("256.00 GiB" in each for each in ending(words.format("256.00")).offers)
    assert ending(words.format("8.50")).offers == ()


def test_a_flag_in_a_list_of_what_to_leave_out_is_the_reason_where_it_is_given() -> None:
    """vLLM 0.10.2 to 0.33.0, v1/core/kv_cache_utils.py: the flag switched the manager off."""
    text = (
        "$ vllm serve m/n --disable-hybrid-kv-cache-manager\n"
        "ValueError: Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
        "unified type."
    )
    ending = diagnose(read_log(text), None)

    assert ending is not None
    assert "--disable-hybrid-kv-cache-manager" in ending.remedy
    assert "did not help" not in ending.remedy
