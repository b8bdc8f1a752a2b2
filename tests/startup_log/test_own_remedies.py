"""Causes that have a remedy of their own by what stands around them: a driver, a package, a platform."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"


ONLY_ARM = "hint: but `vllm` only has wheels for the following platform: `manylinux_2_28_aarch64`"


def frame(path: str, function: str) -> str:
    return f'  File "/usr/lib/python3/site-packages/{path}", line 1, in {function}\n    x()'


def ending(*lines: str) -> Diagnosis:
    diagnosis = diagnose(read_log("\n".join(lines)), None)
    assert diagnosis is not None
    return diagnosis


PYTORCH = "PyTorch version: 2.6.0+cu124"


@pytest.mark.parametrize(
    ("driver", "cause", "says"),
    [
        # CUDA's release notes: 12.4 came with 550.54.14, and any program of CUDA 12 needs 525.60.13
        ("Nvidia driver version: 535.104.05", "driver_too_old", "550.54.14"),
        ("Nvidia driver version: 470.57.02", "driver_too_old", "525.60.13 or later"),
        ("Nvidia driver version: 550.90.07", "no_kernels_for_this_gpu", ""),
        ("", "no_kernels_for_this_gpu", ""),
    ],
)
def test_an_old_driver_in_the_text_explains_a_kernel_that_is_not_loaded(
    driver: str, cause: str, says: str
) -> None:
    diagnosis = ending(PYTORCH, driver, "RuntimeError: CUDA error: device kernel image is invalid")

    assert diagnosis.cause == cause
    assert says in diagnosis.remedy


def test_triton_needs_the_driver_of_its_own_cuda() -> None:
    """vllm-project/vllm#18580: torch for CUDA 11.8 with the driver of 11.8, and Triton 3.2 of CUDA 12."""
    printed = ("PyTorch version: 2.6.0+cu118", "Nvidia driver version: 520.61.05")

    triton = ending(*printed, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid")
    other = ending(*printed, "RuntimeError: CUDA error: device kernel image is invalid")

    assert (triton.cause, other.cause) == ("driver_too_old", "no_kernels_for_this_gpu")
    assert "525.60.13" in triton.remedy


def test_a_warning_of_collect_env_explains_no_complaint() -> None:
    """The form of vllm-project/vllm#8007: on Neuron no extension for CUDA is built."""
    title = "[Bug]: vLLM with Neuron performance degrades dramatically with many requests"
    warns = (
        "WARNING 08-29 18:36:46 _custom_ops.py:18] Failed to import from vllm._C with "
        "ModuleNotFoundError(\"No module named 'vllm._C'\")"
    )

    assert ending(title, "collecting environment information...", warns).cause == "slower_than_expected"
    assert ending("[Bug]: vllm serve fails", warns).cause == "build_does_not_match"


@pytest.mark.parametrize(
    ("lines", "cause", "helps"),
    [
        (
            ("ImportError: libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1",),
            "build_does_not_match",
            "LD_LIBRARY_PATH",
        ),
        (
            ("AttributeError: module 'cv2.dnn' has no attribute 'DictValue'",),
            "build_does_not_match",
            "opencv-python-headless alone",
        ),
        (
            (
                HEADER,
                frame("transformers_modules/org/model/modeling_x.py", "<module>"),
                "ImportError: cannot import name 'is_torch_fx_available' from 'transformers.utils'",
            ),
            "build_does_not_match",
            "newer revision of the model's files",
        ),
        (
            (
                HEADER,
                frame("intel_extension_for_pytorch/llm/modules/linear.py", "forward"),
                "TypeError: forward() takes 3 positional arguments but 5 were given",
            ),
            "build_does_not_match",
            "oneAPI",
        ),
        (
            ("ValueError: Expected a torch.device with a specified index or an integer, but got:cuda",),
            "build_does_not_match",
            "torch that this release requires",
        ),
        (
            ("ImportError: /root/.cache/torch_extensions/py310/a/a.so: cannot open shared object file",),
            "build_does_not_match",
            "Delete ~/.cache/torch_extensions",
        ),
        (
            ("pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.",),
            "package_index_unavailable",
            "--default-timeout",
        ),
        (
            ("NotImplementedError: Could not run '_C::gptq_gemm' with arguments from the 'CPU' backend.",),
            "kernel_not_on_the_cpu",
            "without quantization",
        ),
        (
            ("ValueError: signal only works in main thread of the main interpreter",),
            "engine_in_a_thread",
            "main thread",
        ),
        (
            ("RuntimeError: Please use HIP_VISIBLE_DEVICES instead of ROCR_VISIBLE_DEVICES",),
            "visible_devices_beside_ray",
            "unset ROCR_VISIBLE_DEVICES",
        ),
        (
            ("RuntimeError: Bad StatusOr access: INTERNAL: Mosaic failed to compile TPU kernel: bad shape",),
            "tpu_kernel_failed",
            "128",
        ),
        (
            ("RuntimeError: nrt_tensor_allocate status=4 message=Allocation Failure",),
            "neuron_memory_exhausted",
            "--tensor-parallel-size",
        ),
        (
            ("ds.map_batches(Predictor, concurrency=2)", "RuntimeError: No CUDA GPUs are available"),
            "no_gpu_visible",
            "num_gpus=1",
        ),
        # vllm-project/vllm#50660, #49922, #48848, #49683 and #20743, NixOS/nixpkgs#406675
        (
            ("RuntimeError: /a/flashmla-src/a.cuh:6: Assertion `res == CUresult::CUDA_SUCCESS` failed",),
            "cuda_call_refused",
            "0.25.0",
        ),
        (
            ("RuntimeError: a and b must have same reduction dim, but got [s47, 3840] X [5632, 1024].",),
            "tensors_do_not_fit",
            "newer release",
        ),
        (
            ("error: Distribution `vllm==0.23.1rc1` can't be installed because it doesn't have a", ONLY_ARM),
            "install_failed",
            "drop the extra index",
        ),
        (
            ("ptxas /tmp/a.ptx, line 6; error   : PTX .version 8.4 does not support .target sm_120a",),
            "cuda_compiler_too_old",
            "TRITON_PTXAS_PATH",
        ),
        (
            ("RuntimeError: The device doesn't support querying the available free memory.",),
            "xpu_fault",
            "ZES_ENABLE_SYSMAN=1",
        ),
        # vllm-project/vllm#8500
        (
            (
                'File "/vllm/worker/cpu_model_runner.py", line 1, in execute_model',
                "AttributeError: '_OpNamespace' '_C' object has no attribute 'ggml_dequantize'",
            ),
            "kernels_of_vllm_missing",
            "GGUF needs a GPU",
        ),
        # Triton on Volta, of which its own assertion speaks
        (
            ("python: ConvertLayoutOpToLLVM.cpp: mma -> mma layout conversion is only supported on Ampere",),
            "triton_attention_on_volta",
            "--no-enable-prefix-caching",
        ),
        # vllm-project/vllm#5465: cuDNN's v8 interface in torch
        (
            (
                HEADER,
                frame("vllm/model_executor/models/llava.py", "_process_image_input"),
                "RuntimeError: GET was unable to find an engine to execute this computation",
            ),
            "cuda_library_failed",
            "LD_LIBRARY_PATH",
        ),
        # #1130, #3497, #1519 and #1441
        (
            (
                HEADER,
                frame("transformers/tokenization_utils_fast.py", "convert_tokens_to_string"),
                "TypeError: argument 'tokens': 'NoneType' object cannot be converted to 'PyString'",
            ),
            "token_without_text",
            "--tokenizer",
        ),
        (
            ("ValueError: Asking to pad but the tokenizer does not have a padding token. Please select",),
            "tokenizer_without_padding",
            "pad_token",
        ),
        (
            ("openai.error.APIError: HTTP code 502 from API (<!DOCTYPE HTML PUBLIC",),
            "proxy_answered",
            "NO_PROXY",
        ),
        (
            (
                "I ran into the error when pip install vllm in Mac:",
                "RuntimeError: Cannot find CUDA_HOME. CUDA must be available to build the package.",
            ),
            "toolchain_missing",
            "No CUDA toolkit helps",
        ),
    ],
)
def test_a_kind_of_failure_has_its_own_remedy(lines: tuple[str, ...], cause: str, helps: str) -> None:
    diagnosis = ending(*lines)

    assert diagnosis.cause == cause
    assert helps in diagnosis.remedy
