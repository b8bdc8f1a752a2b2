"""Texts that name the part that failed and not the reason: no reason is invented, and the title is shown."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.failures.failure import find_failure
from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines

NAMED = {
    # vllm-project/vllm#33543: which assertion is not said.
    "# [Bug]: Some FP8 MoE models fail assertions on GB200\n": "quantized_model_failed",
    # vllm-project/vllm#37933: hosts, the model's class or a stage can be at fault.
    "# [Bug]: v0.18.0 fails to run pipeline parallel across nodes\n": "pipeline_failed",
    # vllm-project/vllm#28770
    "# [Bug]: Failed to launch example for Intel Arc Pro B60\n": "intel_gpu_failed",
    # What people say of the reason counts all the same.
    "# [Bug]: FP8 model fails: no kernel for sm_120\n": "quantization_not_supported",
    "# [Bug]: Step3p5ForCausalLM does not support Pipeline parallelism\n": "pipeline_not_supported",
    # vllm-project/vllm#17351: UCX's handler of signals, beside a title that names another part.
    (
        "# [Bug]: Qwen2.5-VL Series Randomly Crashes with Pipeline Parallel\n\n"
        "Caught signal 11 (Segmentation fault: address not mapped to object at address 0x7f6654400010)\n"
    ): "process_crashed",
    # vllm-project/vllm#23039: a setting that has no value.
    "# [Bug]: Serving fails with XPU device due to cudagraph_capture_sizes being None\n": "engine_fault",
    # vllm-project/vllm-ascend#3291: a check of the plugin, and no error of the NPU.
    (
        "# [Bug]: failed to start qwen3-next-80b RuntimeError: Ascend config is not initialized. "
        "Please call init_ascend_config first.\n"
    ): "engine_fault",
    # vllm-project/llm-compressor#870: what the class has no place for is said in a sentence below the title.
    (
        "# How to load compressed model with vllm?\n\n"
        "When attempting to load this quantized model using vllm, I encountered a KeyError. Upon inspecting "
        "the params_dict within the weight_load method, I noticed that there was no entry for weight_scale.\n"
    ): "weights_do_not_fit_the_class",
    # vllm-project/vllm#1816: the sizes of a rank, in a person's words.
    (
        "# when use awq for qwen and tensor_parallel_size is 2, input size got error.\n"
    ): "quantization_blocks_do_not_divide",
    # vllm-project/vllm#10798
    "# [Bug]: LoRa adapter responses not matching peft/transformers response\n": "wrong_output",
    # vllm-project/vllm#11375: another tokenizer was used, which was there.
    (
        "# [Bug]: vLLM crashes on tokenized embedding input\n\n"
        "Due to a configuration error a wrong tokenizer was used (see the error log below).\n"
    ): "engine_died_serving",
    # NVIDIA/TensorRT-LLM#17034: CUDA's error is that of a call which the line above it names.
    (
        "IpcMemory.open_ipc_memory\n  → cudaIpcOpenMemHandle\n"
        "RuntimeError: CUDA Runtime API error: <cudaError_t.cudaErrorInvalidDevice: 101>\n"
    ): "peer_access",
}
CUT = """\
# [Usage]: deploy Llama3.1 405B-Instruct-FP8 with H800 * 8 not work

```
(VllmWorkerProcess pid=28014) ERROR 07-24 22:52:39 multiproc_worker_utils.py:226]     return forward_call()
(VllmWorkerProcess pid=28016) ERROR 07-24 22:52:39 multiproc_worker_utils.py:226]   File "/usr/local/lib/\
python3.9/site-packages/vllm/model_executor/models/llama.py", line 322, in forward
(VllmWorkerProcess pid=28013) ERROR 07-24 22:52:39 multiproc_worker_utils.py:226]     hidden_states = layer(
"""
"""The form of vllm-project/vllm#6750, in which the text ends before the error."""


@pytest.mark.parametrize(("text", "cause"), NAMED.items(), ids=[text[:50] for text in NAMED])
def test_cause_is_what_the_text_holds(text: str, cause: str) -> None:
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause


def test_cut_traceback_names_no_cause_of_the_title_s_words() -> None:
    found = diagnose(read_log(CUT), None)

    assert found is not None
    assert found.cause is None
    assert "ends within a traceback" in found.wanted
    assert any("405B-Instruct-FP8 with H800" in note for note in found.notes)


def test_class_of_a_quoted_error_is_shown_where_its_owner_is_not_known() -> None:
    found = diagnose(
        read_log("# [Bug]: serving failed with type object 'GrammarInfo' has no attribute 'from_hub'\n"), None
    )

    assert found is not None
    assert (found.cause, found.type) == (None, "AttributeError")
    assert found.wanted


def test_version_of_a_package_is_not_called_absent() -> None:
    """Of vLLM 0.9.2, model_executor/layers/quantization/bitsandbytes.py."""
    text = "ImportError: bitsandbytes version is wrong. Please install bitsandbytes>=0.46.1.\n"
    found = diagnose(read_log(text), None)

    assert found is not None
    assert "another version" in found.means


def test_source_below_the_last_fence_hides_no_title() -> None:
    source = "import requests\nimport json\nfrom typing import Any\n\nx = requests.post(\n    url,\n)\n"
    text = f"# [Bug]: the server crashes\n\n```bash\nvllm serve a/b\n```\n\n```\n{source}"

    assert find_failure(read_lines(text)) is not None


@pytest.mark.parametrize(
    ("title", "without"),
    [
        # vllm-project/vllm#7003 and #20284; the flags are those of vLLM 0.33.0, engine/arg_utils.py.
        ("[Bug]: VLLM crashes when prefix caching is enabled", "--no-enable-prefix-caching"),
        ("[Bug]: xgrammar crashes with speculative decoding", "no --speculative-config"),
        ("[Bug]: Crash during chunked prefill", "--no-enable-chunked-prefill"),
        ("[Feature]: support prefix caching with this model", ""),
        ("[Bug]: disabling prefix caching causes a crash with chunked prefill", ""),
        ("[Bug]: Model Launch Hangs with 16+ Ranks in vLLM", ""),
    ],
)
def test_feature_that_a_title_names_can_be_left_out(title: str, without: str) -> None:
    named = read_log(f"{title}\n\nDetails follow.\n").around.features

    assert [each.without for each in named] == ([without] if without else [])


@pytest.mark.parametrize(
    ("command", "noted"),
    [("vllm serve org/name --no-enable-prefix-caching", False), ("vllm serve org/name", True)],
)
def test_switch_that_a_start_has_is_not_proposed_again(command: str, noted: bool) -> None:
    found = diagnose(
        read_log(f"[Bug]: VLLM crashes when prefix caching is used\n\n```\n{command}\n```\n"), None
    )

    assert found is not None
    assert any("--no-enable-prefix-caching" in note for note in found.notes) is noted


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("INFO 06-01 10:00:00 [core.py:93] Initializing a V1 LLM engine (v0.33.0) with config: x", False),
        ("INFO 06-01 10:00:00 [llm_engine.py:161] Initializing an LLM engine (v0.4.3) with config: x", True),
        ("Details follow.", True),
    ],
)
def test_flag_that_turns_a_default_off_is_not_claimed_for_every_release(line: str, condition: bool) -> None:
    """vLLM 0.10.2 to 0.33.0, engine/arg_utils.py have the form `--no-...` of each switch."""
    found = diagnose(read_log(f"[Bug]: VLLM crashes when prefix caching is enabled\n\n{line}\n"), None)

    assert found is not None
    noted = next(note for note in found.notes if "--no-enable-prefix-caching" in note)
    assert ("where the release has this flag" in noted) is condition


@pytest.mark.parametrize(
    "title",
    [
        # vllm-project/vllm#42008 and #41511, whose words are not those of a failure.
        "[Bug]: MoE base model requests may be affected by LoRA deltas when LoRA adapters are loaded",
        "[Bug]: W4A16 MoE: weight_scale not sharded along K, kernel computes another group_size",
    ],
)
def test_what_is_reported_as_a_bug_is_shown_without_a_cause(title: str) -> None:
    found = diagnose(read_log(f"{title}\n\n### Your current environment\n"), None)

    assert found is not None
    assert found.cause is None
    assert found.wanted


def test_parent_s_error_is_that_of_a_start_which_a_person_says_waits() -> None:
    """The form of vllm-project/vllm#44732: the engine's process lives, and never reports."""
    text = """\
# V1 Engine hangs at startup, EngineCore spawns but never connects

The EngineCore process never sends its handshake, so that `wait_for_engine_startup()` eventually times out:

```
RuntimeError: Engine core initialization failed.
Failed core proc(s): {}
```
"""
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "start_timed_out"


def test_class_that_a_title_says_is_missing() -> None:
    text = "[Bug]: transformers lacks Qwen3_5MoeForConditionalGeneration\n\nIt does not start.\n"
    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "transformers_too_old"


def test_tensors_of_8_bits_on_the_host() -> None:
    text = "NotImplementedError: \"index_cpu\" not implemented for 'Float8_e4m3fn'\n"
    found = diagnose(read_log(text), None)

    assert found is not None
    assert "host" in found.means


def test_flag_that_a_title_says_it_works_without() -> None:
    text = "[Bug]: Engine crashes with --kv-cache-dtype fp8_e4m3, works without it\n\nDetails follow.\n"

    assert read_log(text).around.titled == ("--kv-cache-dtype",)
