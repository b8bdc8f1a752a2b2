"""Texts in which the reason stands apart from the line that only says that something failed."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.explanation.log_facts import flags_of
from service.startup_log.log import read_log

BUILD_FAILED = """\
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/env/lib/python3.10/site-packages/torch/utils/cpp_extension.py", line 1893, in _run_ninja_build
    subprocess.run(
  File "/usr/lib/python3.10/subprocess.py", line 526, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.
"""


def explained(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "killed",
    [
        "FAILED: /tmp/b/csrc/x.o\n/usr/local/cuda/bin/nvcc -I/x -c /src/csrc/x.cu -o /tmp/b/x.o\nKilled\n",
        "/bin/bash: line 1:  4711 Killed                  cicc --c++17 --gnu_version=110400 x.cpp1.ii\n",
        "/bin/sh: 1: 99 Killed /usr/lib/gcc/x86_64-linux-gnu/12/cc1plus -quiet -O2 x.cpp\n",
    ],
    ids=["ninja", "bash", "path"],
)
def test_a_compiler_that_was_killed_is_no_missing_toolchain(killed: str) -> None:
    """The shell's own words of a process that SIGKILL ended: bash, jobs.c."""
    found = explained(killed + BUILD_FAILED)

    assert found.cause == "compiler_killed"
    assert "Killed" in found.message
    assert "SIGKILL" in found.means
    assert "MAX_JOBS" in found.remedy


def test_another_process_that_was_killed_says_nothing_of_the_compiler() -> None:
    found = explained("/bin/bash: line 1:  4711 Killed                  rsync -a x y\n" + BUILD_FAILED)

    assert found.cause == "toolchain_missing"


def test_a_source_build_shows_the_compiler_s_first_error() -> None:
    """clang's form of an error: file, line, column."""
    found = explained(
        "[3/9] Building CXX object CMakeFiles/_C.dir/csrc/cpu/a.cpp.o\n"
        "FAILED: CMakeFiles/_C.dir/csrc/cpu/a.cpp.o\n"
        "/src/csrc/cpu/a.cpp:12:3: warning: unused variable 'x'\n"
        "/src/csrc/cpu/a.cpp:40:9: error: use of undeclared identifier 'omp_get_max_threads'\n"
        "/src/csrc/cpu/a.cpp:41:9: error: use of undeclared identifier 'omp_get_thread_num'\n"
        "subprocess.CalledProcessError: Command '['cmake', '--build', '.', '-j=8', '--target=_C']'"
        " returned non-zero exit status 1.\n"
    )

    assert (found.cause, found.line) == ("source_build_failed", 4)
    assert "OpenMP" in found.means
    assert "CUDA" not in found.remedy


def test_a_failed_inspection_shows_what_the_import_raised() -> None:
    """vLLM 0.8.5, model_executor/models/registry.py: the class is imported in a process of its own."""
    place = "ERROR 04-01 08:00:00 [registry.py:354]"
    calls = f'{place}   File "/e/site-packages/vllm/model_executor/models/registry.py", line'
    found = explained(
        f"{place} Error in inspecting model architecture 'LlamaForCausalLM'\n"
        f"{place} Traceback (most recent call last):\n"
        f"{calls} 586, in _run_in_subprocess\n"
        f"{place}     returned.check_returncode()\n"
        f"{place} subprocess.CalledProcessError: Command '['python', '-m', "
        "'vllm.model_executor.models.registry']' returned non-zero exit status 1.\n"
        f"{place} The above exception was the direct cause of the following exception:\n"
        f"{place} Traceback (most recent call last):\n"
        f"{calls} 589, in _run_in_subprocess\n"
        f'{place}     raise RuntimeError(f"Error raised in subprocess:\n'
        f"{place} RuntimeError: Error raised in subprocess:\n"
        f"{place} Traceback (most recent call last):\n"
        f"{calls} 327, in load_model_cls\n"
        f"{place}     mod = importlib.import_module(self.module_name)\n"
        f'{place}   File "/e/site-packages/torch/_inductor/runtime/hints.py", line 46, in <module>\n'
        f"{place} ModuleNotFoundError: No module named 'triton.backends'; 'triton' is not a package\n"
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/model_executor/models/registry.py", line 420, in '
        "_raise_for_unsupported\n"
        "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. Please check the logs "
        "for more details.\n"
    )

    assert (found.cause, found.type) == ("inspect_failed", "ModuleNotFoundError")
    assert found.message.startswith("No module named 'triton.backends'")
    assert "placeholder" in found.means


def test_the_report_of_usage_ends_nothing() -> None:
    """vLLM 0.19.0, usage/usage_lib.py: a thread of its own, whose exception ends that thread alone."""
    found = explained(
        "Exception in thread Thread-1 (_report_usage_worker):\n"
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/usage/usage_lib.py", line 276, in _write_to_file\n'
        "PermissionError: [Errno 13] Permission denied: '/.config'\n"
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/triton/runtime/cache.py", line 55, in __init__\n'
        "torch._inductor.exc.InductorError: PermissionError: [Errno 13] Permission denied: '/.triton'\n"
    )

    assert (found.cause, found.line) == ("file_not_accessible", 7)


def test_a_quoted_title_does_not_hide_the_exception_below() -> None:
    found = explained(
        'Image 1.2: "RuntimeError: Cannot re-initialize CUDA in forked subprocess."\n'
        "export VLLM_WORKER_MULTIPROC_METHOD=spawn\n"
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/torch/cuda/__init__.py", line 300, in _lazy_init\n'
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method\n"
    )

    assert (found.cause, found.line) == ("process_started_wrongly", 5)
    assert "--disable-frontend-multiprocessing" in found.remedy


def test_a_library_s_words_on_the_line_of_the_wrapper_are_the_reason() -> None:
    """libxsmm's words in Intel's extension, with the next process's line behind them."""
    found = explained(
        "ERROR 11-20 06:33:19 async_llm_engine.py:65] ChildProcessError: worker died\n"
        "Unable to get JIT kernel for brgemm. Params: M=2, N=2, K=322024-11-20 06:33:19 - asyncio - ERROR -\n"
    )

    assert (found.cause, found.line) == ("cpu_without_instructions", 2)


HIP = """\
Traceback (most recent call last):
  File "/e/site-packages/vllm/worker/model_runner.py", line 1, in execute_model
RuntimeError: HIP error: unspecified launch failure
"""


@pytest.mark.parametrize(
    ("settings", "on"),
    [
        ("args: Namespace(num_speculative_tokens=None)\nconfig: speculative_config=None, seed=0\n", False),
        ("config: speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=1), seed=0\n", True),
        (
            (
                "config: speculative_config=None, seed=0\n"
                "config: speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=1), seed=0\n"
            ),
            True,
        ),
    ],
    ids=["none", "on", "two starts"],
)
def test_speculative_decoding_is_advised_against_where_it_is_on(settings: str, on: bool) -> None:
    assert ("speculative decoding" in explained(settings + HIP).remedy) is on


def test_tokens_of_a_dummy_run_are_no_drafting() -> None:
    """vLLM 0.9.0, v1/worker/gpu_model_runner.py _dummy_sampler_run: every start makes this call."""
    found = explained(
        "INFO 05-21 11:59:40 [gpu_model_runner.py:1] Model loading took 1.0 GiB and 1.0 seconds\n"
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/v1/worker/gpu_model_runner.py", line 1, in _dummy_sampler_run\n'
        '  File "/e/site-packages/vllm/v1/spec_decode/metadata.py", line 1, in make_dummy\n'
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )

    assert found.cause == "illegal_memory_access"
    assert "draft" not in found.remedy


@pytest.mark.parametrize(("given", "taken"), [("fp4", "modelopt_fp4"), ("awq", "awq")])
def test_a_method_that_the_engine_replaced_is_planned_as_it_resolved_it(given: str, taken: str) -> None:
    """A name that no release lists is that of the log's resolved configuration; others stay as given."""
    log = read_log(
        f"INFO [api_utils.py:273] non-default args: {{'model': 'a/b', 'quantization': '{given}'}}\n"
        "INFO [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: model='a/b', "
        "speculative_config=None, quantization=modelopt_fp4, enforce_eager=False\n"
    )

    assert flags_of(log)[0]["quantization"] == taken


@pytest.mark.parametrize(
    ("beside", "helps"),
    [("vllm serve a/b --linear-backend marlin\n", "Leave --linear-backend out"), ("", "newer release")],
)
def test_a_backend_that_was_asked_for_is_named_first(beside: str, helps: str) -> None:
    found = explained(
        f"{beside}ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: "
        "please set VLLM_TEST_FORCE_FP8_MARLIN=1.\n"
    )

    assert (found.cause, helps in found.remedy) == ("quantization_not_supported", True)


def test_calls_without_folders_do_not_show_whose_program_failed() -> None:
    found = explained(
        "Traceback (most recent call last):\n"
        '  File "runpy.py", line 196, in _run_module_as_main\n'
        '  File "weight_utils.py", line 243, in hf_model_weights_iterator\n'
        "    for name in f:\n"
        "TypeError: 'builtins.safe_open' object is not iterable\n"
    )

    assert found.cause != "program_fault"
    assert (found.part, "safetensors" in found.remedy) == ("the loader of the model", True)


def test_an_argument_that_argparse_does_not_know_is_no_word_of_the_command_line() -> None:
    """Python 3.11, argparse.py add_argument: the program declares an option with a keyword of its own."""
    found = explained(
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/entrypoints/api_server.py", line 148, in <module>\n'
        '  File "/usr/lib/python3.11/argparse.py", line 1430, in add_argument\n'
        "TypeError: _StoreAction.__init__() got an unexpected keyword argument 'low'\n"
    )

    assert (found.cause, found.by_place) == ("call_not_known", True)
    assert "No flag of the command line" in found.means


def test_a_call_of_torch_in_the_model_s_class_is_not_laid_on_the_settings() -> None:
    found = explained(
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/entrypoints/llm.py", line 1, in __init__\n'
        '  File "/e/site-packages/vllm/model_executor/models/utils.py", line 1, in _flatten_embeddings\n'
        "RuntimeError: torch.cat(): expected a non-empty list of Tensors\n"
    )

    assert (found.cause, found.part) == ("model_class_failed", "the model's class")


@pytest.mark.parametrize(
    ("text", "helps"),
    [
        ("RuntimeError: Failed to infer device type\n", "install vLLM for CPUs"),
        (
            "    ray_actor_options:\n      num_cpus: 4\nRuntimeError: No CUDA GPUs are available\n",
            "num_gpus=1",
        ),
        (
            "GPU 0: NVIDIA RTX PRO 6000\nRuntimeError: FlashInfer requires GPUs with sm75 or higher\n",
            "toolkit of 12.9",
        ),
        (
            (
                "INFO [importing.py:27] Triton is installed but 0 active driver(s) found (expected 1). "
                "Disabling Triton to prevent runtime errors.\n"
                "AttributeError: module 'triton.language' has no attribute 'int8'\n"
            ),
            "see its GPUs before it imports vLLM",
        ),
    ],
    ids=["no device", "ray", "toolkit", "placeholder"],
)
def test_what_else_the_text_holds_decides_what_helps(text: str, helps: str) -> None:
    assert helps in explained(text).remedy


def test_the_cpu_executor_with_the_worker_of_gpus_is_a_build_for_gpus() -> None:
    """vLLM 0.6.6, executor/cpu_executor.py: the platform of the build names the worker's class."""
    found = explained(
        "Traceback (most recent call last):\n"
        '  File "/e/site-packages/vllm/executor/cpu_executor.py", line 124, in _create_worker\n'
        '  File "/e/site-packages/vllm/worker/worker_base.py", line 455, in init_worker\n'
        "TypeError: Worker.__init__() got an unexpected keyword argument 'kv_cache_dtype'\n"
    )

    assert (found.cause, found.by_place) == ("call_not_known", False)
    assert "vLLM for CPUs" in found.remedy
