"""Errors in another form than a traceback, and what a running engine's own lines say of where it was."""

import pytest

from service.application.text.headline import headline
from service.explanation.diagnosis import diagnose
from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

CORE = "(EngineCore pid=57) ERROR 07-27 22:08:27 [core.py:1165] "
API = "(APIServer pid=1) "
SERVES = f"{API}INFO:     Application startup complete.\n"


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


def test_compiler_s_error_above_the_report() -> None:
    # A note of a repository that serves on Tenstorrent, July 2026
    found = ending(
        "loc(\"custom-call.347\"): error: 'ttir.chunked_scaled_dot_product_attention' op Result shape must"
        " match query shape.\n"
        "2026-07-27 22:08:27.699 (3451.938s) [        421D1300]      module_builder.cc:839    ERR| Failed to"
        " convert from SHLO to TTIR module\n"
        f"{CORE}EngineCore failed to start.\n"
    )
    assert found.cause == "compiler_refused_graph"
    assert found.line == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('loc("add.3"("a.py":1:2)): error: operand #0 is not a tensor', "operand #0 is not a tensor"),
        ("12:01:02.9 (1.2s) [ 421D1300] executable.cc:83    ERR| no device is open", "no device is open"),
        ("E0712 10:11:12.123456 4711 client.cc:83] the plugin gave no client", "the plugin gave no client"),
    ],
)
def test_error_of_another_program_is_shown(line: str, message: str) -> None:
    found = ending(f"{line}\n{CORE}EngineCore failed to start.\n")
    assert (found.line, found.message) == (1, message)


def test_dump_of_a_library_above_the_exception() -> None:
    # A log of a GB10, May 2026: CUTLASS prints the descriptor, and the exception says which product it was
    found = ending(
        "globalDim      (34816,16384,1,1,1)\n"
        "Error: Failed to initialize the TMA descriptor 2\n"
        f"{CORE}EngineCore failed to start.\n"
        f"{CORE}Traceback (most recent call last):\n"
        f'{CORE}  File "/usr/lib/python3.12/flashinfer/gemm/gemm_base.py", line 989, in forward\n'
        f"{CORE}    module.fp4_gemm(\n"
        f"{CORE}RuntimeError: [FP4 gemm Runner] Failed to initialize cutlass FP4 gemm on sm120/sm121."
        " Error: Error Internal\n"
    )
    assert (found.cause, found.line, found.type) == ("cutlass_kernel_failed", 7, "RuntimeError")


def test_warned_error_beside_a_complaint() -> None:
    # A note on LMCache with Redis, January 2026
    found = ending(
        "# LMCache connector error\n\nWriting to Redis fails:\n\n"
        "producer  | (EngineCore_DP0 pid=719) [2026-01-08 16:41:10,987] LMCache WARNING: batched put error:"
        " zip() argument 2 is shorter than argument 1 (instrumented_connector.py:118:lmcache.v1)\n"
    )
    assert (found.cause, found.line) == ("kv_connector_failed", 5)


REFUSED = (
    f"{API}ERROR:    Exception in ASGI application\n"
    f"{API}Traceback (most recent call last):\n"
    f'{API}  File "/usr/lib/python3.12/vllm/renderers/params.py", line 418, in _token_len_check\n'
    f"{API}    raise VLLMValidationError(\n"
    f"{API}vllm.exceptions.VLLMValidationError: This model's maximum context length is 2048 tokens. However,"
    " you requested 1800 output tokens and your prompt contains at least 249 input tokens.\n"
)


def test_request_that_a_running_server_refused() -> None:
    # A server's log of April 2026
    log = read_log(f"{SERVES}{REFUSED}")
    found = explain(log, None)
    assert found.ending is not None
    assert (found.ending.cause, found.ending.refused) == ("request_refused", True)
    assert headline(found).startswith("The engine started and serves; it refused a request")


def test_step_of_the_warm_up_is_none_of_a_server() -> None:
    # vLLM 0.23.0: the warm-up calls the worker's sample_tokens with requests of its own
    frames = "".join(
        f'{CORE}  File "/usr/lib/python3.12/site-packages/vllm/v1/{file}", line 1, in {function}\n'
        for file, function in (
            ("engine/core.py", "_initialize_kv_caches"),
            ("worker/gpu_worker.py", "compile_or_warm_up_model"),
            ("worker/gpu_worker.py", "sample_tokens"),
        )
    )
    error = f"{CORE}RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist\n"
    found = ending(f"{CORE}Traceback (most recent call last):\n{frames}{error}")
    assert (found.cause, found.serving) == ("toolchain_missing", False)
    found = ending(f"{CORE}Traceback (most recent call last):\n{frames.splitlines()[2]}\n{error}")
    assert found.serving


def test_mend_that_is_not_enough() -> None:
    # A calibration of August 2026: what helped before does not help here
    found = ending(
        "Single requests crashed the engine:\n\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 472.00 MiB.\n\n"
        "This is with the same mitigation that fixed the 196K case, which is insufficient at 245K.\n"
        "The engine died (`EngineDeadError`).\n"
    )
    assert (found.cause, found.line) == ("out_of_memory", 3)


def test_crash_of_a_nightly_build() -> None:
    # kyuz0/amd-strix-halo-vllm-toolboxes#61
    found = ending(
        "gfx1151: latest image segfaults at HIP init (torch nightly 0612)\n\n"
        "Any model dies immediately with **exit 139 (SIGSEGV) and empty logs** on ROCm.\n\n"
        "The nightlies have a `libhsa-runtime64` crash in `rocr::AMD::GpuAgent::InitDma()`.\n"
    )
    assert found.cause == "rocm_fault"
    assert "nightly" in found.means
    assert "torch.cuda.is_available()" in found.remedy


def test_request_with_which_the_engine_ended() -> None:
    # A note on answers of 503, March 2026; the message is wrapped
    found = ending(
        "```\n(APIServer pid=1) ValueError: The decoder prompt contains a(n) image item with\n"
        "length 6105, which exceeds the pre-allocated encoder cache size 6084. Please\n"
        "reduce the input size or increase the encoder cache size by setting\n```\n\n"
        "This was followed by:\n\n```\n"
        "(EngineCore pid=55) ERROR 03-23 23:22:19 [core.py:1101] EngineCore encountered a fatal error.\n```\n"
    )
    assert (found.cause, found.line) == ("media_longer_than_encoder_cache", 2)
    assert (found.refused, found.serving) == (False, True)


@pytest.mark.parametrize(
    ("text", "cause", "advice"),
    [
        # Notes of July and August 2026 on Ascend NPUs
        ("Unsupported connector type: RecomputeCPUOffloadConnectorV1", "kv_connector_failed", "factory.py"),
        (
            (
                "RuntimeError: torch_npu detected, but NPU device is not available\n"
                "dcmi model initialized failed, because the device is used. ret is -8020"
            ),
            "ascend_device_taken",
            "npu-smi info",
        ),
        (
            (
                "argument --speculative-config/-sc: Value method:dspark cannot be converted\n"
                "Invalid JSON: key must be a string at line 1 column 2"
            ),
            "flag_value_not_read",
            "single quotes",
        ),
        # A log of May 2026 with a draft and three stages
        (
            (
                '--pipeline-parallel-size 3 --speculative-config \'{"method":"mtp"}\'\n'
                "(APIServer pid=1) NotImplementedError: Pipeline parallelism is not supported for this model."
                " Supported models implement the `SupportsPP` interface."
            ),
            "pipeline_not_supported",
            "Leave out the draft",
        ),
        # A report on a rented H100: the operator of a new architecture within a graph's capture
        (
            'torch_call_dispatcher("aten::new_empty") API call failed\n  at torch/csrc/stable/ops.h',
            "operator_call_failed",
            "--enforce-eager",
        ),
        # A chart that passes a data-parallel size to pods with one GPU
        (
            (
                "### Pods crashing (CrashLoopBackOff)\n\nThis means that the chart is passing"
                " --intra-node-data-parallel-size 2, but the pod only has 1 GPU."
            ),
            "too_few_gpus",
            "--data-parallel-size",
        ),
    ],
)
def test_what_the_text_names(text: str, cause: str, advice: str) -> None:
    found = ending(text)
    assert found.cause == cause
    assert advice in found.remedy


def test_backend_s_name_is_no_failure_of_triton() -> None:
    found = diagnose(read_log("`FLASH_ATTN` and `TRITON_ATTN` fail identically here."), None)
    assert found is None or found.cause != "triton_compile"
