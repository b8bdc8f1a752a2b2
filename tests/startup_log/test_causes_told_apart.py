"""Failures whose words are alike and whose remedies differ, and words that are no failure."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.errors.tracebacks import Frame, frames_above, native_frames
from service.startup_log.log import StartupLog, read_log
from service.startup_log.text.lines import read_lines

BANNER = "INFO 01-01 00:00:01 [api_server.py:1] vLLM API server version 0.19.0"
LOADED = "INFO 01-01 00:00:09 [gpu_model_runner.py:1] Model loading took 1.0 GiB memory and 1.0 seconds"


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # CUDA, cudaErrorSystemDriverMismatch; llm-d/llm-d#706 and gpustack/gpustack#4678, with a newer driver
        (
            "RuntimeError: Error 803: system has unsupported display driver / cuda driver combination",
            "compat_libraries_of_another_driver",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
            "driver_too_old",
        ),
        # nvcc's own messages; SystemPanic/flashinfer-windows#6 and flashinfer-ai/flashinfer#5479
        (
            "nvcc fatal: A single input file is required for a non-link phase when an outputfile is given",
            "compiler_refuses_its_command",
        ),
        ("nvcc fatal   : Unknown option '--compress-mode=size'", "compiler_refuses_its_command"),
        ('[Bug]: compilation stops with "Unknown option --abc"', "compiler_refuses_its_command"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "cuda_compiler_too_old"),
        ("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found", "toolchain_missing"),
        # gcc 13, its own message
        ("gcc: error: unrecognized command-line option '-march=abc'", "compiler_refuses_its_command"),
        # urllib3 2, exceptions.py NameResolutionError
        (
            "requests.exceptions.ConnectionError: (Caused by NameResolutionError(), host='huggingface.co')",
            "no_network",
        ),
        (
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url",
            "hub_unavailable",
        ),
        # Python 3.12, importlib: an import from a namespace package
        ("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)", "package_hidden"),
        ("ImportError: cannot import name 'LLM' from 'vllm' (/opt/vllm/__init__.py)", "build_does_not_match"),
        # xformers, ops/fmha/dispatch.py; vllm-project/vllm#10662, on a V100
        (
            "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:",
            "no_kernels_for_this_gpu",
        ),
        # transformers, modeling_gguf_pytorch_utils.py; huggingface/transformers#32577
        ("ValueError: Architecture chatglm not supported", "gguf_not_supported"),
        # GNU ld, in the words of gcc; vllm-project/vllm#14321
        ("collect2: error: ld returned 1 exit status", "toolchain_missing"),
        # An exception of a package that no index has, by what it is about; LMCache/LMCache#412
        (
            "AssertionError: Only FlashAttention backend is supported for now.",
            "connector_needs_flash_attention",
        ),
        # vllm-project/vllm#29138: what an attribute of nothing is about
        (
            "AttributeError: 'NoneType' object has no attribute 'use_mxfp4_w4a16'",
            "quantization_not_supported",
        ),
        # vLLM 0.22.1, v1/core/sched/scheduler.py; vllm-project/vllm#45407
        ("AssertionError: External KV connector is not verified yet", "connector_step_failed"),
        # pydantic's and json's own words: vllm-project/vllm#26161; the engine's: #15508 and #12867
        (
            "  Value error, Expecting value: line 1 column 1 (char 0) [type=value_error]",
            "model_config_not_read",
        ),
        ("ValueError: Block size must be a multiple of 16.", "no_attention_backend"),
        ("Use local model ERROR, Use `repo_type` argument if needed.", "model_not_found"),
        # transformers, models/auto/configuration_auto.py; vllm-project/vllm#13307
        (
            "File \"/a/transformers/models/auto/configuration_auto.py\", line 6, in get\nKeyError: 'mllama'",
            "unknown_architecture",
        ),
        # Ray 2, _private/memory_monitor.py; MiaAI-Lab/GLM-5.3-Flash-NVFP4-Dual-DGX-Spark#2
        ("ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node", "out_of_host_memory"),
        # vLLM 0.10.2 to 0.33.0, v1/attention/backends/flash_attn.py; vllm-project/vllm#22331
        ("AssertionError: Sinks are only supported in FlashAttention 3", "attention_sinks_not_supported"),
        # kserve/kserve#3946: the form of TORCH_INTERNAL_ASSERT, c10/util/Exception.h, in a sentence
        (
            'It fails: `r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":844`',
            "out_of_memory",
        ),
    ],
)
def test_causes_with_different_remedies(text: str, cause: str) -> None:
    assert ending(text).cause == cause


def test_a_pod_that_crashed_without_its_log_says_how_to_get_it() -> None:
    found = ending("The pod of the model gets created, then runs, then crashes within 30 seconds.")

    assert found.cause == "crash_loop"
    assert "kubectl logs POD --previous" in found.remedy


HEADER = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("/home/user/rag/run_benchmark.py", "program_fault"),
        ("run_benchmark.py", "program_fault"),
        ("/usr/lib/python3.12/asyncio/runners.py", "engine_fault"),
        ("/opt/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", "engine_fault"),
        ("/workspace/vllm/vllm/v1/core/sched/scheduler.py", "engine_fault"),
        ("/var/cache/torchinductor_root/ab/cab.py", "engine_fault"),
    ],
)
def test_the_last_call_decides_whose_fault_an_error_of_python_is(path: str, cause: str) -> None:
    """Words of Python 3.12 for a variable without a value."""
    engine = '  File "/opt/lib/python3.12/site-packages/vllm/entrypoints/llm.py", line 1, in generate'
    words = "UnboundLocalError: cannot access local variable 'x' where it is not associated with a value"
    text = "\n".join([HEADER, engine, f'  File "{path}", line 7, in run', words])

    assert ending(text).cause == cause


def test_a_call_of_the_engine_that_a_program_makes_wrongly_is_named_by_its_words() -> None:
    text = "\n".join(
        [
            HEADER,
            '  File "/home/user/run.py", line 7, in <module>',
            "TypeError: LLM.__init__() got an unexpected keyword argument 'abc'",
        ]
    )

    assert ending(text).cause == "unknown_argument"


def test_a_box_of_rich_is_a_traceback() -> None:
    """As rich 13, traceback.py Traceback prints it, whole and in a narrow terminal."""
    lines = read_lines(
        "╭───── Traceback (most recent call last) ─────╮\n"
        "│ /home/user/rag/main.py:3 in main            │\n"
        "│ ❱ 3 │   run()                               │\n"
        "│ /network-volume/rag/T-RAG_Project/src/run_b │\n"
        "│ enchmark.py:290 in run                      │\n"
        "╰─────────────────────────────────────────────╯\n"
        "UnboundLocalError: local variable 'x' referenced before assignment\n"
    )

    assert frames_above(6, lines) == (
        Frame("/network-volume/rag/T-RAG_Project/src/run_benchmark.py", "run"),
        Frame("/home/user/rag/main.py", "main"),
    )


def test_files_of_cuda_beside_an_error_are_its_frames() -> None:
    """Lines as in vllm-project/vllm#52457."""
    text = (
        "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:164 'an illegal memory access'\n"
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    )

    assert native_frames(1, read_lines(text)) == (Frame("/workspace/csrc/custom_all_reduce.cuh", ""),)
    assert "--disable-custom-all-reduce" in ending(text).remedy
    assert "--disable-custom-all-reduce" not in ending(text.splitlines()[1]).remedy


def test_a_class_is_shown_where_the_text_has_it() -> None:
    assert ending("[Bug]: error: argument --dtype: invalid choice: 'a' (choose from 'b')").type == ""
    assert ending("[Bug]: ValueError: No available memory for the cache blocks.").type == "ValueError"


@pytest.mark.parametrize("waits", [True, False])
def test_a_start_that_waits_has_not_failed(waits: bool) -> None:
    """aiter, jit/utils/file_baton.py; without it, a log that stops in its middle is of a start that ended."""
    last = "[aiter] waiting for baton release at /x/lock_module_moe_sorting" if waits else "[aiter] something"
    log = read_log(f"{BANNER}\n{LOADED}\n{last}")

    assert (log.failure is None) is waits
    assert (log.waits is not None) is waits


def cut_off(title: str) -> StartupLog:
    return read_log(f"{title}\n\nI use the newest image.\n{BANNER}\nINFO 01-01 00:00:02 [x.py:1] more")


def test_a_title_is_no_start_of_its_own() -> None:
    log = cut_off("[Bug]: ValueError: No available memory for the cache blocks.")

    assert (log.starts, log.release) == (1, "0.19.0")
    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "no_memory_for_cache_blocks"


def test_a_failure_that_an_engine_logged_is_a_start_of_its_own() -> None:
    log = cut_off("ERROR 01-01 00:00:00 [core.py:1] ValueError: No available memory for the cache blocks.")

    assert (log.starts, log.failed_start) == (2, 1)


CHOICES = "'deepseek_v3', 'glm4_moe', 'granite', 'hermes', 'llama3_json', 'mistral'"


@pytest.mark.parametrize(
    ("message", "offers"),
    [
        # argparse, its own message; zai-org/GLM-4.5#19
        (
            f"vllm: error: argument --tool-call-parser: invalid choice: 'glm45' (choose from {CHOICES})",
            ["--tool-call-parser glm4_moe"],
        ),
        (
            f"vllm serve: error: argument --tool-call-parser: invalid choice: 'xyz' (choose from {CHOICES})",
            [],
        ),
        # vLLM 0.10.1, entrypoints/openai/api_server.py validate_api_server_args
        (
            "KeyError: 'invalid tool call parser: hermez (chose from { glm45, hermes, xlam })'",
            ["--tool-call-parser hermes"],
        ),
    ],
)
def test_the_nearest_of_the_choices_that_a_message_lists_is_offered(message: str, offers: list[str]) -> None:
    assert [each.partition(":")[0] for each in ending(message).offers] == offers


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        # vLLM 0.19.0, engine/arg_utils.py: the flags of adapters
        ("--lora-path a/b", "no release has --lora-path; vLLM 0.19.0 has --lora-"),
        ("--no-such-thing", None),
    ],
)
def test_a_flag_that_no_release_has_names_those_that_begin_with_its_word(flag: str, said: str | None) -> None:
    offers = ending(f"{BANNER}\nvllm: error: unrecognized arguments: {flag}").offers

    assert [each[: len(said or "")] for each in offers] == ([] if said is None else [said])


def test_a_flag_of_a_later_release_says_since_when() -> None:
    """--attention-backend came with 0.13.0: engine/arg_utils.py."""
    early = BANNER.replace("0.19.0", "0.10.2")
    found = ending(f"{early}\nvllm: error: unrecognized arguments: --attention-backend FLASH_ATTN")

    assert found.offers == ("vLLM 0.10.2 has no argument --attention-backend: it came with 0.13.0",)


def test_a_running_server_that_answers_500_failed_a_request() -> None:
    """As uvicorn 0.30 logs requests: h11_impl.py."""
    ready = f"{BANNER}\nINFO:     Application startup complete."
    answer = 'INFO:     10.1.1.1:5 - "POST /v1/completions HTTP/1.1" {}'
    failed = ending(f"{ready}\n{answer.format('500 Internal Server Error')}")

    assert (failed.cause, failed.refused) == ("request_failed", True)
    assert read_log(f"{ready}\n{answer.format('200 OK')}").failure is None


def test_the_engine_s_import_counts_in_the_program_that_reports_the_environment() -> None:
    """Python 3.12; vLLM, collect_env.py. Any other exception says more."""
    words = "ImportError: cannot import name '__version__' from 'vllm' (unknown location)"
    text = f'{HEADER}\n  File "/home/me/collect_env.py", line 275, in get_vllm_version\n{words}'

    assert ending(text).cause == "package_hidden"
    assert ending(f"{text}\n\nValueError: No available memory for the cache blocks.").cause == (
        "no_memory_for_cache_blocks"
    )


def test_a_package_without_its_version_is_a_folder_of_its_name() -> None:
    """Python 3.12, a namespace package has no attributes; vllm-project/vllm-ascend#718 and #725."""
    assert ending("AttributeError: module 'vllm' has no attribute '__version__'").cause == "package_hidden"
    assert ending("AttributeError: module 'cv2' has no attribute '__version__'").cause != "package_hidden"


@pytest.mark.parametrize(
    ("sentence", "cause"),
    [
        ("transformers==5.8.1 cannot load Gemma 4, the lock is too old", "unknown_architecture"),
        ("[Bug]: dependency conflict between torch and xformers", "build_does_not_match"),
    ],
)
def test_a_sentence_about_a_library_names_what_it_lacks(sentence: str, cause: str) -> None:
    assert ending(sentence).cause == cause


def test_no_conflict_is_no_failure() -> None:
    assert (
        read_log("I upgraded it in the container and it works with no dependency conflict.").failure is None
    )


def test_a_title_that_quotes_the_beginning_gives_way_to_the_whole_message() -> None:
    words = "vllm serve: error: argument --tool-call-parser: invalid choice: 'glm45'"

    assert ending(f"{words}\n\nThe log:\n{words} (choose from {CHOICES})").offers != ()


@pytest.mark.parametrize(("file", "words"), [("cpu_worker.py", "KVCACHE_SPACE"), ("gpu_worker.py", "shard")])
def test_the_platform_decides_what_helps(file: str, words: str) -> None:
    """vLLM 0.25.1, v1/worker/cpu_worker.py."""
    text = (
        f"(Worker pid=36) INFO 08-18 02:57:12 [{file}:235] Explicitly set (0.0/11.65) GiB\n"
        "(EngineCore pid=25) ValueError: No available memory for the cache blocks.\n"
    )

    assert words in ending(text).remedy


def test_a_kernel_of_flashinfer_that_no_compiler_can_make_for_this_gpu() -> None:
    """FlashInfer 0.5, compilation_context.py get_nvcc_flags_list; the form of vllm-project/vllm#31740."""
    found = ending("RuntimeError: No supported CUDA architectures found for major versions [10].")

    assert found.cause == "flashinfer_without_gpu_of_its_own"
    assert "--moe-backend triton" in found.remedy
