"""Forms of whole issues: what stands around a failure must not be taken for it, and its facts count."""

import pytest

from service.application.text.explanation import render_explanation
from service.explanation.diagnosis import diagnose
from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"


def frame(path: str, function: str, source: str = "x()") -> str:
    return f'  File "/usr/lib/python3/site-packages/{path}", line 1, in {function}\n    {source}'


def found(*lines: str) -> Diagnosis | None:
    return diagnose(read_log("\n".join(lines)), None)


def ending(*lines: str) -> Diagnosis:
    diagnosis = found(*lines)
    assert diagnosis is not None
    return diagnosis


def test_the_assertion_of_a_test_is_no_failure_of_an_engine() -> None:
    """The forms of vllm-project/vllm#18708 and #19458."""
    summary = "FAILED v1/engine/test_client.py::test_events[True-tcp] - AssertionError: No message received"

    assert ending("[CI Failure]: a test", "```", summary, "assert None is not None", "```").cause == (
        "test_not_passed"
    )
    assert ending("AssertionError: No message received").cause == "engine_fault"


def test_what_an_engine_raised_below_a_test_counts() -> None:
    raised = "(EngineCore pid=1) ERROR 11-01 10:00:00 [core.py:1] RuntimeError: CUDA error: out of memory"

    assert ending("FAILED a/test_b.py::test_c - RuntimeError: x", raised).cause == "out_of_memory"


def test_an_error_of_a_kernel_counts_where_python_ignores_it() -> None:
    """vllm-project/vllm#19631: the first rank to report it does so in a destructor."""
    cause = ending(
        "RuntimeError: Worker failed with error 'Expected result >= 0', please check the stack trace above "
        "for the root cause",
        "Exception ignored in: <function CustomAllreduce.__del__ at 0x7efc>",
        HEADER,
        frame("vllm/distributed/device_communicators/custom_all_reduce.py", "__del__"),
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ).cause

    assert cause == "illegal_memory_access"


def test_a_crash_counts_and_not_the_calls_in_which_it_happened() -> None:
    """vllm-project/vllm#17770."""
    diagnosis = ending(
        "(RayWorkerWrapper pid=1) *** SIGSEGV received at time=1746566409 on cpu 131 ***",
        "(RayWorkerWrapper pid=1) Fatal Python error: Segmentation fault",
        "(RayWorkerWrapper pid=1) Stack (most recent call first):",
        '(RayWorkerWrapper pid=1)   File "/usr/lib/vllm/distributed/device_communicators/pynccl_wrapper.py", '
        "line 290 in ncclAllReduce",
        '(RayWorkerWrapper pid=1)   File "/root/.cache/vllm/torch_compile_cache/a/b.py", line 508 in call',
    )

    assert diagnosis.cause == "process_crashed"
    assert "NCCL_DEBUG=INFO" in diagnosis.remedy


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        # CMake's status lines name libraries that it found; ninja's end is not its reason: #15435
        (
            (
                "-- NVRTC: /usr/local/cuda-12.6/lib64/libnvrtc.so",
                "FAILED: CMakeFiles/_C.dir/csrc/a.cu.o",
                "ninja: build stopped: subcommand failed.",
            ),
            "source_build_failed",
        ),
        (
            ("ptxas terminated (signal: 11)", "ninja: build stopped: subcommand failed."),
            "compiler_killed",
        ),
        # GCC before 8.2 on aarch64: #17906
        (
            (
                "cc1plus: error: invalid feature modifier in '-march=armv8.2-a+dotprod+fp16'",
                "ninja: build stopped: subcommand failed.",
            ),
            "compiler_without_target",
        ),
        # setuptools-rust: #11178
        (("error: can't find Rust compiler", "ERROR: Failed building wheel for x"), "rust_compiler_missing"),
        # setup.py on aarch64 and in a container on a Mac: #10459 and #8851
        (
            ("error: subprocess-exited-with-error", "RuntimeError: Unknown runtime environment"),
            "build_without_platform",
        ),
        (
            ("ValueError: Unsupported platform, please use CUDA, ROCm, Neuron, OpenVINO, or CPU.",),
            "build_without_platform",
        ),
        # A package for Linux on Windows: #15286
        (
            (
                r'  File "C:\A\lib\site-packages\vllm\platforms\cuda.py", line 15, in <module>',
                "    import vllm._C  # noqa",
                "ModuleNotFoundError: No module named 'vllm._C'",
            ),
            "native_windows",
        ),
        # A rank reports NCCL's error, and another one the kernel's: #12625
        (
            (
                "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                "WARNING 01-29 20:00:47 runner.py:143] CUDA error: an illegal memory access was encountered",
            ),
            "illegal_memory_access",
        ),
        # A title that names a function of torch.ops is no absence of it: #14601
        (
            (
                "[Bug]: torch.ops._C.cutlass_scaled_mm RuntimeError: Error Internal with PP",
                HEADER,
                frame("vllm/_custom_ops.py", "cutlass_scaled_mm"),
                "RuntimeError: Error Internal",
            ),
            "quantization_not_supported",
        ),
        # The innermost call is a kernel's, whatever input of the model led to it: #17595
        (
            (
                HEADER,
                frame("vllm/model_executor/models/qwen2_5_vl.py", "_process_image_input"),
                frame("vllm/_custom_ops.py", "cutlass_scaled_mm", "assert b.shape[0] % 16 == 0"),
                "AssertionError",
            ),
            "quantization_not_supported",
        ),
        # A cited traceback: #16386
        (
            (
                "> " + frame("vllm/model_executor/layers/fused_moe/layer.py", "__init__").strip(),
                ">     assert self.quant_method is not None",
                "> AssertionError",
            ),
            "quantization_not_supported",
        ),
        # vLLM 0.6.3, attention/backends/flashinfer.py sets a class to None where the import fails: #13258
        (
            (
                HEADER,
                frame("vllm/attention/backends/flashinfer.py", "_get_prefill_wrapper"),
                "TypeError: 'NoneType' object is not callable",
            ),
            "package_missing",
        ),
        # V0's own limit for one step: #6414
        (
            (
                HEADER,
                frame("vllm/engine/async_llm_engine.py", "run_engine_loop"),
                frame("vllm/engine/async_timeout.py", "_do_exit", "raise asyncio.TimeoutError"),
                "asyncio.exceptions.TimeoutError",
            ),
            "engine_iteration_timed_out",
        ),
    ],
)
def test_the_root_is_what_failed(lines: tuple[str, ...], cause: str | None) -> None:
    diagnosis = found(*lines)

    assert (None if diagnosis is None else diagnosis.cause) == cause


@pytest.mark.parametrize(
    ("message", "cause", "helps"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement x (from versions: none)",
            "install_failed",
            "Upgrade pip",
        ),
        (
            "HfHubHTTPError: 416 Client Error: Requested Range Not Satisfiable for url: https://cdn-lfs-us",
            "hub_unavailable",
            ".incomplete",
        ),
        (
            "ModuleNotFoundError: No module named 'transformers_modules.microsoft.Phi-3'",
            "object_not_sent",
            "without dots",
        ),
        (
            "AttributeError: 'MiniCPMOProcessor' object has no attribute 'get_audio_placeholder'",
            "build_does_not_match",
            "--code-revision",
        ),
    ],
)
def test_a_message_has_the_remedy_of_its_form(message: str, cause: str, helps: str) -> None:
    diagnosis = ending(message)

    assert diagnosis.cause == cause
    assert helps in diagnosis.remedy


def test_what_a_client_raises_is_a_refused_request() -> None:
    """The form of vllm-project/vllm#9451: the words are those of the model's own template."""
    said = "BadRequestError: Error code: 400 - {'message': 'This model does not support %s at once!'}"

    assert ending(said % "several images").refused


def test_a_request_that_failed_is_no_end_of_the_engine() -> None:
    """The form of vllm-project/vllm#14209."""
    log = read_log(
        "ERROR 03-03 19:06:24 [serving_chat.py:664] RuntimeError: Expected there to be 1 prompt updates "
        "corresponding to 1 audio items, but instead found 0 prompt updates!"
    )

    assert "failed at a request" in render_explanation(explain(log, None))


@pytest.mark.parametrize(
    ("sentence", "works"),
    [
        ("Running with `--disable-frontend-multiprocessing` will resolve the issue.", True),
        ("Changing back to V0 using `export VLLM_USE_V1=0` it can start successfully.", True),
        ("After turning off the chunking optimization, the errors go away.", True),
        ("It fails in 0.8.5 but works fine with vLLM version 0.8.4.", True),
        ("Version v0.25.0 is OK with the same command, and only v0.26.0 fails.", True),
        ("Reported workaround: `VLLM_USE_DEEP_GEMM=0`, at a cost of 5 percent of the speed.", True),
        ("It does not work with the flag `--enforce-eager` either.", False),
        ("This should work when the option is set in the config.", False),
        ("Does it work when the model is loaded with another dtype?", False),
        # vllm-project/vllm#40165: what it does not depend on
        (
            "This happens even with `--dtype half` so it does not appear related to compilation.",
            False,
        ),
    ],
)
def test_what_a_person_says_to_work_is_quoted(sentence: str, works: bool) -> None:
    """The first six follow vllm-project/vllm#7309, #17770, #19631, #17344, #50660 and #47130."""
    diagnosis = ending(
        "### Describe the bug", "It crashes.", sentence, "RuntimeError: CUDA error: out of memory"
    )

    assert [each.words for each in diagnosis.works] == ([sentence] if works else [])
    assert all(each.line == 3 for each in diagnosis.works)


def test_a_kernel_that_is_missing_is_no_fault_of_the_draft() -> None:
    """The title of vllm-project/vllm#48082."""
    title = "[Bug]: MTP crashes on B200 after FlashInfer selects a missing TRTLLM-Gen cubin"

    assert ending(title).cause == "flashinfer_kernel_failed"


def test_calls_of_another_block_are_not_those_of_an_exception() -> None:
    """The form of vllm-project/vllm#12649: the environment's own traceback stands above."""
    diagnosis = ending(
        "```",
        HEADER,
        frame("huggingface_hub/file_download.py", "hf_hub_download"),
        "```",
        "### How you are installing vllm",
        "FileNotFoundError: [Errno 2] No such file or directory: '/a/vllm/envs.py'",
    )

    assert diagnosis.part == ""


def test_an_exception_of_a_group_is_read_behind_its_bar() -> None:
    """The form of vllm-project/vllm#4553: Python 3.11's traceback of an ExceptionGroup."""
    diagnosis = ending(
        "  +-+---------------- 1 ----------------",
        '    |   File "/usr/lib/vllm/worker/neuron_model_runner.py", line 1, in _prepare_prompt',
        "    |     assert len(block_table) == 1",
        "    | AssertionError",
    )

    assert (diagnosis.type, diagnosis.message) == ("AssertionError", "assert len(block_table) == 1")


def test_a_report_that_is_cut_off_is_still_that_of_a_test() -> None:
    """The form of vllm-project/vllm#3947."""
    lines = (
        "    def test_outputs(files):",
        ">           assert output[0] == expected[0]",
        "E           AssertionError: assert '' == 'SELECT'",
    )

    assert ending(*lines).cause == "test_not_passed"


def test_source_that_a_notebook_prints_says_nothing() -> None:
    """The form of vllm-project/vllm#8352: a comment of IPython speaks of signals."""
    diagnosis = ending(
        "File /usr/lib/python3.10/site-packages/IPython/core/magics/script.py:315, in shebang(self, line)",
        "    311     # If we get here and p.returncode is still None, we must have",
        "    313     # in case it's stuck in uninterruptible sleep. -9 = SIGKILL",
        "--> 315     raise CalledProcessError(rc, cell)",
        "",
        "CalledProcessError: Command 'a' returned non-zero exit status 1.",
    )

    assert diagnosis.cause != "process_killed"


def test_a_socket_that_is_closed_under_a_wait_says_nothing_of_its_folder() -> None:
    """The form of vllm-project/vllm#11232: the frontend waits for an engine that has ended."""
    raised = "zmq.error.ZMQError: Operation not supported"
    waits = (
        "Task exception was never retrieved",
        HEADER,
        frame("vllm/engine/multiprocessing/client.py", "run_output_handler_loop"),
        frame("zmq/_future.py", "poll", "raise _zmq.ZMQError(_zmq.ENOTSUP)"),
        raised,
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    )

    assert ending(*waits).cause == "engine_died_serving"
    assert ending(raised).cause == "socket_folder_not_usable"
