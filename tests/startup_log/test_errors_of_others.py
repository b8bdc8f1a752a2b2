"""Errors that a text names though vLLM did not fail: advice, scripts, other engines, warnings of Python."""

import pytest

from service.startup_log.failures.failure import find_failure
from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines

NO_FAILURE = {
    "advice": "> If you see `CUDA out of memory` in the log, take a GPU with more memory.\n",
    "advice in Chinese": "> 若启动日志出现 `CUDA out of memory`, 请换卡。\n启动需从磁盘加载权重。\n",
    "script": """\
#!/usr/bin/env bash
for i in $(seq 1 180); do
  if grep -qE "EngineCore failed|ValueError: No available memory|Traceback" "$log"; then
    echo "the model failed to start; last log lines:"
  fi
done
""",
    "flags with comments": """\
services:
  vllm:
    image: vllm/vllm-openai:v0.22.1
    command:
      - "--model"
      - "org/model"
      - "--language-model-only"    # not needed, frees memory for the KV cache, else CUDA out of memory
""",
    "another engine": """\
# A server for this checkpoint

vLLM is recommended for this checkpoint. SGLang
can't load it yet: its `compressed_tensors` loader raises
`NotImplementedError: No compressed-tensors compatible scheme was found` on the model's layers.
""",
    "another engine's section": """\
## SGLang Issues Encountered

### OOM During CUDA Graph Capture

```
torch.AcceleratorError: CUDA error: out of memory
```
""",
}


@pytest.mark.parametrize("text", NO_FAILURE.values(), ids=NO_FAILURE)
def test_what_did_not_happen_to_the_engine_is_no_failure(text: str) -> None:
    assert find_failure(read_lines(text)) is None


def test_an_error_of_vllm_beside_another_engine_is_its_own() -> None:
    found = find_failure(
        read_lines("With SGLang it runs. vLLM ends with `RuntimeError: CUDA error: out of memory`.\n")
    )
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "out_of_memory"


def test_a_warning_of_python_is_one_whatever_its_class_is_called() -> None:
    text = """\
/root/app.py:120: DeprecationError: 2025-02-24: We have renamed several parameters of the functions:

- container_idle_timeout -> scaledown_window
(EngineCore_DP0 pid=19) INFO 02-22 20:47:51 [gpu_model_runner.py:4033] Starting to load model org/model...
(EngineCore_DP0 pid=19) /p/tvm_ffi/_a.py:174: UserWarning: Failed to JIT the extension.
(EngineCore_DP0 pid=19) We recommend installing via `pip install torch-c-dlpack-ext`
(EngineCore_DP0 pid=19)   warnings.warn(
(EngineCore_DP0 pid=19) INFO 02-22 20:49:32 [gpu_model_runner.py:4130] Model loading took 14.99 GiB memory
(EngineCore_DP0 pid=19) INFO 02-22 20:50:08 [kv_cache_utils.py:1307] GPU KV cache size: 25,808 tokens
"""
    assert read_log(text).failure is None


def test_two_engines_of_compose_are_kept_apart() -> None:
    """In the form of two services of one file, of which one serves and the other one restarts."""
    text = """\
big-1    | (APIServer pid=1) INFO 03-09 12:54:01 [utils.py:302]  version 0.16.1
small-1  | (APIServer pid=1) INFO 03-09 12:54:02 [utils.py:302]  version 0.16.1
big-1    | (APIServer pid=1) INFO:     Application startup complete.
small-1  | (EngineCore pid=132) INFO 03-09 12:56:44 [gpu_worker.py:424] Available KV cache memory: -8.5 GiB
small-1  | ERROR 03-09 12:56:44 [core.py:1] ValueError: No available memory for the cache blocks
small-1 exited with code 1 (restarting)
"""
    log = read_log(text)
    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "no_memory_for_cache_blocks"
    assert not log.failure.serving


def test_a_wrapped_message_is_read_whole() -> None:
    text = """\
ValueError: To serve at least one request with the model's max seq len (131072),
16.0 GiB KV cache is needed, which is larger than the available KV cache memory (8.99 GiB).
Based on the available memory, the estimated maximum model length is 73680.
"""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.type == "ValueError"
    assert found.message.endswith("(8.99 GiB).")
    assert found.values == {
        "max_model_len": 131072,
        "kv_needed_gib": 16,
        "available_kv_gib": 8.99,
        "est_max_model_len": 73680,
    }


def test_a_wrapped_message_goes_on_with_a_path_in_brackets() -> None:
    """vLLM 0.6.3, worker/model_runner_base.py dump_input_when_exception, as it was pasted into a forum."""
    text = """\
torch.OutOfMemoryError: Error in model execution (input dumped to
/tmp/err_execute_model_input_20241101-095338.pkl): CUDA out of memory. Tried to
allocate 256.00 MiB. GPU 0 has a total capacity of 14.57 GiB of which 54.75 MiB
is free. Including non-PyTorch memory, this process has 0 bytes memory in use.
"""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.message.endswith("has 0 bytes memory in use.")


@pytest.mark.parametrize(
    ("text", "cause", "helps"),
    [
        (
            "vllm serve: error: argument --compilation-config/-cc: Invalid JSON: expected value at line 2",
            "flag_value_not_read",
            "--entrypoint",
        ),
        (
            "vllm serve: error: argument --limit-mm-per-prompt:\nValue a cannot be converted to <function>.",
            "flag_value_not_read",
            "single quotes",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/user/<stdin>'",
            "process_started_wrongly",
            "into a file",
        ),
        (
            "header.hpp:1:10: fatal error: torch/csrc/inductor/cpp_prefix.h: No such file or directory",
            "toolchain_missing",
            "Install torch again",
        ),
    ],
)
def test_what_a_document_writes_down_is_named(text: str, cause: str, helps: str) -> None:
    """CPython, multiprocessing/spawn.py; torch, _inductor; vLLM 0.19.0, engine/arg_utils.py parse_type."""
    found = find_failure(read_lines(f"```\n{text}\n```\n"))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause
    form = found.cause.form_of(found.message)
    assert helps in (found.cause.remedy if form is None else form.remedy)


def test_a_long_document_reports_no_failure() -> None:
    """What a document says an engine does in some case did not happen to its reader."""
    parts = [
        f"## Part {part}\n"
        + "The compose file serves one model on one port of this machine, as the file says.\n" * 16
        for part in range(5)
    ]
    sentence = (
        'That release can lose a wakeup; the engine then dies with "RPC call to sample_tokens timed out".\n'
    )
    text = "# A server for the model\n" + "".join(parts)

    assert find_failure(read_lines(text + sentence)) is None
    assert find_failure(read_lines(sentence)) is not None
    assert find_failure(read_lines(text + "RuntimeError: CUDA error: out of memory\n")) is not None


def test_the_warm_up_of_the_sampler_is_no_request() -> None:
    """In the form of a log of vLLM 0.13 on an AMD GPU: the first error is the allocation's own."""
    warming = "CUDA out of memory occurred when warming up sampler with 64 dummy requests."
    text = f"""\
ERROR 12-19 17:09:52 [a.py:826] torch.OutOfMemoryError: HIP out of memory. Tried to allocate 76 MiB.
ERROR 12-19 17:09:52 [a.py:826] RuntimeError: {warming}
RuntimeError: Worker failed with error '{warming}'
"""
    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "out_of_memory_warming_up"
    assert not failure.serving


def test_a_name_is_read_behind_the_escapes_of_markdown() -> None:
    found = find_failure(read_lines("### 4.1 ModuleNotFoundError: No module named 'vllm.\\_C'\n"))
    assert found is not None
    assert found.message == "No module named 'vllm._C'"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "NotImplementedError: The model's QSA requires a BF16 main KV cache",
            "attention_of_one_cache_dtype",
        ),
        ("NotImplementedError: TokenspeedMLAImpl requires an FP8 KV cache", "attention_of_one_cache_dtype"),
        ("|   0  NVIDIA GB10     On  |  ERR! |\nPending : GPU requires reset", "gpu_fault"),
        ("The restart hit an NVIDIA driver kernel/userspace mismatch and vLLM was down.", "driver_mismatch"),
        (
            "vLLM crashed: the model config says compressed-tensors, and I had forced `--quantization awq`.",
            "no_such_quantization",
        ),
    ],
)
def test_what_people_write_of_a_device_or_a_flag_is_named(text: str, cause: str) -> None:
    """vLLM 0.32.0, models/qwen4_exp/nvidia/qsa.py, attention/backends/mla/tokenspeed_mla.py; nvidia-smi."""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause


def test_the_flags_of_a_command_that_failed_are_no_cause() -> None:
    command = "LMCACHE_CHUNK_SIZE=8 vllm serve org/model --kv-transfer-config '{}'"
    found = find_failure(read_lines(f'# [Bug]: Error when I run a simple command: "{command}"\n'))
    assert found is None or found.cause is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "WeightCacheUnavailableError: Cannot connect to weight cache daemon at /run/a.sock: [Errno 2]",
            "weight_cache_not_usable",
        ),
        ("CacheConfigMismatchError: WeightCacheKey mismatch on fields: ['dtype']", "weight_cache_not_usable"),
        (
            "ValueError: Cannot scale to data_parallel_size 16; --elastic-ep-max-dp-size is 8.",
            "scaling_failed",
        ),
        (
            "ValueError: Unrecognized distributed executor backend rey. Supported values are 'ray'",
            "settings_refused",
        ),
        (
            "RuntimeError: VLLM_NIC_SELECTION_VARS is set but VLLM_GPU_NIC_PCIE_MAPPING is not; set both.",
            "settings_refused",
        ),
    ],
)
def test_what_newer_releases_refuse_with_is_named(text: str, cause: str) -> None:
    """vLLM 0.33.0: weight_cache/ipc_loader.py, core_client.py, config/parallel.py, vllm_net_devices.py."""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause


def test_the_folder_of_a_call_shows_the_transfer_of_weights() -> None:
    text = """\
Traceback (most recent call last):
  File "/p/vllm/distributed/weight_transfer/m2n_engine.py", line 390, in init
    check(parameter)
ValueError: parameter 'a' source mesh covers 4 ranks, but there are 8 trainer ranks
"""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "weights_not_transferred"
