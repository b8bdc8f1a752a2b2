"""Sections of documents and notes of 2026, each of which tells of one failure, as people paste them."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


TOO_LONG = """\
### Issue A: the length is too small

**Symptom:** vLLM started but rejected requests with a context-length error.
"""
BEYOND = """\
### Issue C: max_tokens overflow

vLLM enforces `prompt_tokens + max_tokens <= max_model_len`: if the client asks for more output
tokens than are available, the request is rejected outright.
"""
OTHER_FORMAT = """\
### Issue E: the parser

**Symptom:** Even with `--enable-auto-tool-choice --tool-call-parser hermes` and all the correct flags,
tool calling didn't work. It wrapped the calls in `<tools>` tags instead.
"""
OVERRIDDEN = """\
`--hf-overrides '{"architectures": ["Qwen3_5ForCausalLM"]}'` swaps the model class. The base failed to load:

ValueError: There is no module or parameter named 'language_model' in Qwen3_5Model
"""
OCCUPIED = (
    "`sycl::exception: No device of requested type available`: GPU0 is occupied by another `vllm serve`"
)
SOCKETS = "max_inputs=4 triggered vLLM's ZMQ assertion (`Assertion failed: !_current_out`) in the router"
LEFTOVER = """\
Each retry spawned a new server into the GPU still owned by the first one, and EngineCore crashed with
"Free memory on device cuda:0 (0.66/14.56 GiB)" on every retry.
"""
PULL = """\
## 6. Image pull unstable

**Symptom**: `docker pull` hangs on `Retrying in N second` for hours; layers are never `Pull complete`.
"""
JIT = """\
### JIT compilation is indistinguishable from a hang

WARNING FlashInfer GDN prefill is JIT-compiled; first run may take a while.

The first of these is what a 55-minute round with no output actually was.
"""
TURING = """\
### Triton on Tesla T4
- vLLM crashes with `RuntimeError: PassManager::run failed` during the compilation of a kernel
"""


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        (TOO_LONG, "request_refused", "--max-model-len"),
        (BEYOND, "request_refused", "max_tokens"),
        (OTHER_FORMAT, "tool_call_not_parsed", "--tool-parser-plugin"),
        (OVERRIDDEN, "weights_do_not_fit_the_class", "Leave the override out"),
        (OCCUPIED, "xpu_not_visible", "/dev/dri"),
        (SOCKETS, "socket_of_two_threads", "one event loop"),
        (LEFTOVER, "memory_taken_by_others", "EngineCore process has not ended"),
        (PULL, "image_not_pulled", "docker save"),
        (JIT, "start_is_slow", "VLLM_CACHE_ROOT"),
        (TURING, "triton_compile", "--dtype half"),
    ],
)
def test_section(text: str, cause: str, advice: str) -> None:
    found = ending(text)
    assert found.cause == cause
    assert advice in found.remedy


def test_speed_that_is_stuck_is_no_hang() -> None:
    found = ending("Throughput stuck at 3.2 tokens/second. The image was not compiled with sm_89 targets.")
    assert not found.hangs


CPU = """\
(EngineCore_DP0 pid=9)   File "/venv/site-packages/vllm/v1/worker/cpu_worker.py", line 116, in _bind
(EngineCore_DP0 pid=9)     CpuPlatform.get_allowed_cpu_core_node_list()
(EngineCore_DP0 pid=9)   File "/venv/site-packages/vllm/platforms/cpu.py", line 284, in get_allowed
(EngineCore_DP0 pid=9)     logical_cpu_list: list[LogicalCPUInfo] = json.loads(
(EngineCore_DP0 pid=9)   File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode
(EngineCore_DP0 pid=9)     raise JSONDecodeError("Expecting value", s, err.value) from None
(EngineCore_DP0 pid=9) json.decoder.JSONDecodeError: Expecting value: line 6 column 18 (char 79)
"""
NPU = """\
RuntimeError: Worker failed with error 'npuSynchronizeDevice: NPU function error, error code is 507013
EL0004: [PID: 5536] 2025-11-10-01:25:11.770.501 Failed to allocate memory.
        Possible Cause: Available memory is insufficient.
"""
CUDNN = """\
flashinfer/gemm/gemm_base.py:3534 in _cudnn_gemm_fp8
RuntimeError: ... err 715 != CUDA_SUCCESS :: CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER
RuntimeError: Engine core initialization failed.
"""
NEURON = "Running `/opt/venv/bin/vllm serve` fails with `FileNotFoundError: 'libneuronpjrt-path'`"
NEFF = "The model compiled but failed to load at warmup: `NRT_UNSUPPORTED_NEFF_VERSION`"
TRANSFORMERS = """\
[Bug]: vllm/vllm-openai:latest fails to start Gemma4 with Transformers 5.15.0

This is already fixed on main, which is not in `0.27.0`
"""


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        (CPU, "json_not_read", "VLLM_CPU_OMP_THREADS_BIND"),
        (NPU, "ascend_fault", "--max-num-batched-tokens"),
        (CUDNN, "cudnn_kernel_failed", "--kv-cache-dtype fp8"),
        (NEURON, "neuron_tools_not_in_path", "Activate the Neuron environment"),
        (NEFF, "neuron_driver_does_not_match", "aws-neuronx-dkms"),
        # vllm-project/vllm#51744
        (TRANSFORMERS, "transformers_too_new", "newer vLLM that has the fix"),
    ],
)
def test_where_a_library_failed(text: str, cause: str, advice: str) -> None:
    found = ending(text)
    assert found.cause == cause
    assert advice in found.remedy


def test_estimate_of_the_engine_in_a_note() -> None:
    log = read_log(
        "ValueError: To serve at least one request with the model's max seq len (32768),\n"
        "3.01 GiB KV cache is needed, which is larger than the available KV cache memory (2.6 GiB).\n"
        "Estimated maximum model length is 22016.\n"
    )
    assert log.number("est_max_model_len") == 22016.0


def test_tag_that_does_not_exist() -> None:
    found = ending(
        "### 1. The version of the post\n\n`vllm/vllm-openai:v0.19.2rc1` does not exist on Docker Hub."
    )
    assert found.cause == "image_not_pulled"


def test_fix_in_bold_letters() -> None:
    log = read_log(
        "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints.\n\n"
        "**Fix:** removed `--kv-cache-dtype`, which leaves the cache in 16 bits.\n"
    )
    assert [each.words for each in log.around.works] == [
        "Fix: removed `--kv-cache-dtype`, which leaves the cache in 16 bits."
    ]


WRAPPED = """\
3. **`ninja` was installed but not on the spawned subprocess's PATH**, so the
   engine core died with `FileNotFoundError: 'ninja'`. Launching with
   `/opt/vllm-venv/bin` on PATH fixed it.
"""
REMOVED = """\
2. `uv` resolved **transformers 5.14.1** into its venv, and vLLM 0.11.0 calls
   `all_special_tokens_extended`, removed in v5. Pinning `transformers==4.57.1`
   *inside the isolated venv* fixed it, without touching our env.
"""
DTYPE = """\
(EngineCore pid=79) ERROR 07-30 08:43:00 [core.py:1330] RuntimeError: For FP16/BF16 input, output must \
have the same dtype as inputs. For FP8 input, output must have dtype BF16
"""
TEMPLATE = """\
gemma-4's tool template is not in the model checkpoint and not in the vLLM wheel: the printed serve command
referenced a template path that did not exist and vLLM refused to start.
"""


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        (WRAPPED, "toolchain_missing", "PATH"),
        (REMOVED, "transformers_too_new", "transformers<5"),
        (DTYPE, "tensors_do_not_fit", "--dtype bfloat16"),
        (TEMPLATE, "chat_template", "--chat-template"),
    ],
)
def test_what_a_note_says_is_missing(text: str, cause: str, advice: str) -> None:
    found = ending(text)
    assert found.cause == cause
    assert advice in found.remedy


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WRAPPED, "Launching with `/opt/vllm-venv/bin` on PATH fixed it."),
        (
            REMOVED,
            "Pinning `transformers==4.57.1` inside the isolated venv fixed it, without touching our env.",
        ),
    ],
)
def test_sentence_that_begins_on_the_line_above(text: str, words: str) -> None:
    assert [each.words for each in read_log(text).around.works] == [words]


def test_praise_of_somebodys_work_says_of_nothing_that_it_works() -> None:
    """The form of rllm-org/rllm#208."""
    said = "Hello, your work is excellent, but when I was setting up the environment, it failed.\n"
    assert not read_log(f"# version conflict\n\n{said}").around.works


def test_solution_that_a_library_prints() -> None:
    log = read_log(
        "RuntimeError: NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507013\n"
        "        Possible Cause: Available memory is insufficient.\n"
        "        Solution: Close applications not in use.\n"
    )
    assert not log.around.works


def test_flag_of_another_engine() -> None:
    text = "The container exits with `error: invalid argument: --spec-ngram-mod-n-min` if you pass them."
    found = diagnose(read_log(text), None)
    assert found is None or found.cause not in {"speculative_settings", "speculation_failed"}


# A check of DeepGEMM, whose condition stands on a line of its own, and one of Marlin's.
NEXT_N = """\
vLLM serve with `--speculative-config '{"method":"mtp","num_speculative_tokens":2}'` crashes with:

RuntimeError: Assertion error
  (.../deepgemm-src/csrc/apis/../jit_kernels/impls/smxx_fp8_fp4_paged_mqa_logits.hpp:233):
  next_n == 1 or next_n == 2
"""
SCALES = "The forward pass failed:\n\nRuntimeError: b_scales dim 1 = 32 is not size_n = 1536\n"


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        (NEXT_N, "deep_gemm", "num_speculative_tokens to 1"),
        (SCALES, "tensors_do_not_fit", "newer release"),
    ],
)
def test_checks_of_kernels(text: str, cause: str, advice: str) -> None:
    found = ending(text)
    assert found.cause == cause
    assert advice in found.remedy
