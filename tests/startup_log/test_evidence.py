"""Which evidence of a failure counts: figures, exit codes, calls that are left, messages that were lost."""

import pytest

from service.application.text.explanation import render_explanation
from service.application.text.headline import headline
from service.explanation.explain import explain
from service.explanation.wanted_lines import wanted_lines
from service.startup_log.catalogue.exit_codes import cause_of_exit
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

FRAME = (
    '(EngineCore_DP0 pid=1) ERROR 05-14 09:10:07 [core.py:936]   File "/x/site-packages/{}", line 1, in {}'
)


def _failure(*lines: str) -> Failure:
    failure = read_log("\n".join(lines)).failure
    assert failure is not None
    return failure


def _cause(*lines: str) -> str | None:
    cause = _failure(*lines).cause
    return None if cause is None else cause.name


@pytest.mark.parametrize(
    "line",
    [
        # vLLM 0.7.3, worker/worker.py and executor/executor_base.py; 0.12.0, v1/worker/gpu_worker.py
        (
            "INFO 02-26 09:54:05 worker.py:267] weights take 5.20GiB; the rest of the memory reserved for "
            "KV Cache is -1.05GiB."
        ),
        "INFO 02-26 09:54:05 executor_base.py:111] # cuda blocks: 0, # CPU blocks: 4681",
        "INFO 10-06 11:26:41 [gpu_worker.py:298] Available KV cache memory: -1.05 GiB",
    ],
)
def test_a_cache_without_memory_is_a_cause_where_the_log_ends_before_the_error(line: str) -> None:
    assert _cause(line) == "no_memory_for_cache_blocks"
    enough = line.replace("-1.05", "1.05").replace("cuda blocks: 0", "cuda blocks: 900")
    assert read_log(enough).failure is None


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # signal(7): 4 SIGILL, 6 SIGABRT, 7 SIGBUS, 9 SIGKILL, 11 SIGSEGV; a shell adds 128
        ("ChildProcessError: worker died (-9)", "process_killed"),
        ("container exited with exit code: 137", "process_killed"),
        ("Worker 1 (exitcode=-11)", "process_crashed"),
        ("Exited (139) 3 minutes ago", "process_crashed"),
        ("process was killed (signal: 9)", "process_killed"),
        ("exit status 135", "bus_error"),
        ("returncode=132", "cpu_without_instructions"),
        ("exited with code 134", "process_crashed"),
        ("exited with code 1", None),
        ("exit code 9", None),
        ("signal handlers: 9 installed", None),
    ],
)
def test_the_number_of_a_signal_says_what_ended_a_process(text: str, cause: str | None) -> None:
    assert cause_of_exit(text) == cause


def test_calls_that_are_left_say_more_than_a_title_that_says_only_when() -> None:
    lines = [FRAME.format("vllm/v1/attention/selector.py", "_cached_get_attn_backend")]
    title = "[Bug]: vllm serve crashes at engine init for several --kv-cache-dtype values accepted by the CLI"

    assert _cause(title, "", *lines) == "no_attention_backend"


def test_a_failed_import_that_is_cut_off_is_of_libraries_that_do_not_fit() -> None:
    assert (
        _cause(
            FRAME.format("vllm/model_executor/layers/vocab_parallel_embedding.py", "<module>"),
            FRAME.format("torch/__init__.py", "fn"),
        )
        == "build_does_not_match"
    )


def test_a_missing_key_is_read_from_the_line_above_a_cut_traceback() -> None:
    """vLLM 0.7.3, engine/multiprocessing/engine.py run_mp_engine logs `str(error)` above the traceback."""
    where = "ERROR 03-07 14:56:09 [engine.py:400] "
    failure = _failure(
        f"{where}'image'",
        f"{where}Traceback (most recent call last):",
        f'{where}  File "/x/vllm/engine/multiprocessing/engine.py", line 391, in run_mp_engine',
    )

    assert (failure.type, failure.message) == ("KeyError", "'image'")


def test_a_check_without_words_is_shown_by_its_source() -> None:
    failure = _failure("    assert self.metadata is not None", "           ^^^^^^^", "AssertionError")

    assert (failure.type, failure.message) == ("AssertionError", "assert self.metadata is not None")


def test_an_error_that_could_not_be_raised_again_is_named_by_its_class() -> None:
    """vLLM 0.6.5, worker/model_runner_base.py: `raise type(err)(...)`; torch, _dynamo/exc.py."""
    failure = _failure(
        "    raise type(err)(",
        "TypeError: BackendCompilerFailed.__init__() missing 1 required positional argument: 'inner'",
    )

    assert failure.cause is not None
    assert failure.cause.name == "compile_failed"
    assert "BackendCompilerFailed" in wanted_lines(failure)


def test_an_exception_in_a_sentence_says_more_than_a_wrapper() -> None:
    failure = _failure(
        "It fails with `ActorDiedError` triggered by an `ImportError: cannot import name 'x' from 'vllm.y'`.",
        "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task",
    )

    assert failure.type == "ImportError"
    assert failure.message == "cannot import name 'x' from 'vllm.y'"


def test_a_wait_for_a_placement_group_is_a_cause() -> None:
    """vLLM 0.7.3, executor/ray_utils.py _wait_until_pg_ready."""
    log = read_log(
        "INFO 02-26 11:15:04 [ray_utils.py:2] Waiting for creating a placement group of specs for 9 seconds."
    )

    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "ray_cluster_not_ready"
    assert headline(explain(log, None, gpu_specified=False)).startswith("The start waits where the log ends")


def test_warnings_before_a_device_assert_are_its_root() -> None:
    """vLLM 0.9.2, multimodal/profiling.py, and PyTorch's check of an index."""
    warning = (
        "WARNING 01-10 10:00:00 [profiling.py:184] The context length (32768) of the model is too short to "
        "hold the multi-modal embeddings in the worst case (49152 tokens in total, out of which {'image': "
    )

    assert (
        _cause(warning, "RuntimeError: CUDA error: device-side assert triggered")
        == "media_longer_than_context"
    )
    assert read_log(warning).failure is None


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("show an error:   --hf_overrides: command not found", "command_torn_by_the_shell"),
        ("bash: --max-model-len: command not found", "command_torn_by_the_shell"),
        ("bash: vllm: command not found", "program_not_found"),
        ("RuntimeError: UVA is not available", "pinned_memory_off"),
        (
            "instance of 'std::system_error' what():  Operation not permitted",
            "thread_limit",
        ),
        (
            "rocblaslt error: Could not load /x/hipblaslt/library/TensileLibrary_lazy_gfx942.dat",
            "rocm_library_not_opened",
        ),
        ("-isystem /x/include -isystem :/usr/local/cuda-12.8/include", "cuda_home_wrong"),
        ("RuntimeError: FlashInfer requires GPUs with sm75 or higher", "flashinfer_without_gpu_of_its_own"),
        ("please check if the opp_kernel package is installed!", "ascend_kernels_missing"),
    ],
)
def test_words_of_the_shell_and_of_devices_are_known(line: str, cause: str) -> None:
    assert _cause(line) == cause


def test_a_workers_message_is_read_without_its_class() -> None:
    """vLLM 0.5.4, executor/multiproc_worker_utils.py, whose line ends in the header of the traceback."""
    failure = _failure(
        "(VllmWorkerProcess pid=139) ERROR 08-13 15:22:52 multiproc_worker_utils.py:226] Exception in worker "
        "VllmWorkerProcess while processing method profile: 'MixtralForCausalLM' object "
        "has no attribute 'make_empty_intermediate_tensors', Traceback (most recent call last):"
    )

    assert failure.type == "AttributeError"
    assert failure.message.startswith("'MixtralForCausalLM' object has no attribute")
    assert failure.message.endswith("'make_empty_intermediate_tensors'")


@pytest.mark.parametrize(
    ("function", "file", "step"),
    [
        (
            "initialize_model",
            "vllm/model_executor/model_loader/utils.py",
            "the building of the model's class",
        ),
        ("profile_run", "vllm/v1/worker/gpu_model_runner.py", "the profile run"),
        ("init_device", "vllm/v1/worker/gpu_worker.py", "the set-up of the device"),
    ],
)
def test_the_step_of_a_cut_traceback_is_said(function: str, file: str, step: str) -> None:
    log = read_log(f"# It does not start\n{FRAME.format(file, function)}")
    text = render_explanation(explain(log, None, gpu_specified=False))

    assert f"It failed in {step}" in text.replace("\n    ", " ")
    assert "below the end of this text" in text.replace("\n      ", " ").replace("\n    ", " ")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("AttributeError: 'torch.dtype' object has no attribute 'startswith'", "build_does_not_match"),
        ("AttributeError: 'MyGadget' object has no attribute 'startswith'", "call_not_known"),
        ("AssertionError: num_kv_heads == 1", "engine_fault"),
        ("IndexError: index 0 is out of bounds for dimension 0 with size 0", "engine_fault"),
        ("AttributeError: 'NoneType' object has no attribute 'shape'", None),
        ("KeyError: 'gadget'", None),
    ],
)
def test_an_exception_without_a_place_is_named_as_far_as_its_class_tells(
    line: str, cause: str | None
) -> None:
    failure = _failure(line)

    assert (None if failure.cause is None else failure.cause.name) == cause


def test_a_title_about_the_installation_does_not_beat_the_calls_of_a_running_engine() -> None:
    frame = FRAME.format("vllm/v1/sample/ops/topk_topp_sampler.py", "flashinfer_sample")
    title = "[Installation]: installed from source, but failed to run"

    assert _cause(title, "", frame) == "flashinfer_kernel_failed"


def test_what_nccl_says_of_a_plugin_that_it_does_without_is_no_failure() -> None:
    """NCCL 2.20, with NCCL_DEBUG=INFO."""
    line = (
        "host:1:1 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such "
        "file or directory No plugin found (libnccl-net.so), using internal implementation"
    )

    assert read_log(line).failure is None
