"""Of several tracebacks, and messages above them, the one is read that shows the root."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.catalogue.missing_modules import cause_of_module
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"


def frame(path: str, function: str, source: str = "x()") -> str:
    return f'  File "/usr/lib/python3/site-packages/{path}", line 1, in {function}\n    {source}'


def ending(*lines: str) -> Diagnosis:
    found = diagnose(read_log("\n".join(lines)), None)
    assert found is not None
    return found


def test_what_the_executor_raises_again_is_read_where_a_worker_raised_it() -> None:
    """The form of vllm-project/vllm#16150: the core's lines come before those of the ranks."""
    unpacked = "ValueError: too many values to unpack (expected 12)"
    found = ending(
        HEADER,
        frame("vllm/v1/engine/core.py", "run_engine_core"),
        frame("vllm/v1/executor/multiproc_executor.py", "collective_rpc", "raise result"),
        unpacked,
        f"(VllmWorker rank=1 pid=1) {HEADER}",
        frame("vllm/v1/worker/gpu_worker.py", "determine_available_memory"),
        frame("torch/_inductor/output_code.py", "__call__"),
        unpacked,
    )

    assert (found.cause, found.line) == ("compile_failed", 12)


@pytest.mark.parametrize(
    ("path", "function", "cause"),
    [
        ("vllm/attention/backends/blocksparse_attn.py", "forward", "engine_fault"),
        ("vllm/model_executor/models/some_model.py", "forward", "model_class_failed"),
    ],
)
def test_a_value_of_other_parts_is_a_fault_and_no_refusal(path: str, function: str, cause: str) -> None:
    """The form of vllm-project/vllm#12124: a refusal of a backend names what it does not support."""
    found = ending(HEADER, frame(path, function), "ValueError: too many values to unpack (expected 2)")

    assert found.cause == cause


def test_an_exception_says_more_than_the_line_that_heads_its_traceback() -> None:
    """PyTorch 2.9, _inductor/runtime/triton_heuristics.py, logs what was compiled above the exception."""
    logged = "[rank1]:E0716 18:21:23.036000 9 torch/_inductor/runtime/triton_heuristics.py:874]"
    full = f"{logged} OSError: [Errno 122] Disk quota exceeded: '/home/me/.cache/vllm/torch_compile_cache/a'"
    found = ending(
        f"{logged} Triton compilation failed: triton_poi_fused_1",
        f"{logged} def triton_poi_fused_1(in_ptr0):",
        f"{logged} {HEADER}",
        f"{logged} {frame('triton/runtime/cache.py', 'put')}",
        full,
    )

    assert (found.cause, found.type) == ("no_space_left", "OSError")
    assert "VLLM_CACHE_ROOT" in found.remedy


def test_an_installation_that_failed_was_tried_again_where_the_engine_ran_below() -> None:
    """The form of vllm-project/vllm#18673."""
    failed = "ERROR: Failed to build installable wheels for some pyproject.toml based projects (vllm)"
    ran = (HEADER, frame("vllm/platforms/cuda.py", "<module>", "import vllm._C  # noqa"))

    assert ending(failed).cause == "install_failed"
    assert (
        ending(failed, *ran, "ImportError: _C.abi3.so: undefined symbol: _ZN3c10").cause
        == "build_does_not_match"
    )


def test_what_a_sentence_says_of_the_program_that_reports_the_environment_is_not_the_start_s() -> None:
    """The form of vllm-project/vllm#15592: collect_env.py fails in its own way."""
    said = "When I ran the collect_env.py file, I encountered the error:"
    missing = "ModuleNotFoundError: No module named 'vllm._C'"
    own = "ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /x/vllm/_C.abi3.so)"

    assert ending(missing).cause == "build_does_not_match"
    assert ending(missing.replace("'", '"')).cause == "build_does_not_match"
    assert ending(said, "", missing, "", HEADER, frame("vllm/platforms/cuda.py", "<module>"), own).cause == (
        "system_library_too_old"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Python 3.12, importlib: of a package that is absent the message has its own name
        (
            "ModuleNotFoundError: No module named 'compressed_tensors.compressors.pack_quantized'",
            "build_does_not_match",
        ),
        ("ModuleNotFoundError: No module named 'xgrammar.contrib'", "build_does_not_match"),
        ("ModuleNotFoundError: No module named 'compressed_tensors'", "package_missing"),
        # packages that share a name
        ("ModuleNotFoundError: No module named 'google.protobuf'", "package_missing"),
        ("ModuleNotFoundError: No module named 'opentelemetry.sdk'", "package_missing"),
        # a file of one's own hides the package
        (
            "ModuleNotFoundError: No module named 'tokenizers.models'; 'tokenizers' is not a package",
            "package_hidden",
        ),
    ],
)
def test_a_module_inside_of_a_package_shows_another_version(text: str, cause: str) -> None:
    assert ending(text).cause == cause


def test_a_missing_module_without_a_package_says_nothing_of_versions() -> None:
    assert cause_of_module("No module named 'flash_attn'") is None


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        ("load_model", "The weights do not fit"),
        ("profile_run", "The weights fit, but not the first batch"),
        ("initialize_from_config", "leaves more memory outside the cache"),
        ("compile_or_warm_up_model", "leaves more memory outside the cache"),
    ],
)
def test_calls_tell_the_step_where_memory_ran_out(function: str, advice: str) -> None:
    """vLLM 0.10.2 to 0.33.0, v1/worker/gpu_worker.py; the text has no line that shows a milestone."""
    calls = (
        HEADER,
        frame("vllm/v1/worker/gpu_worker.py", function),
        frame("torch/nn/modules/linear.py", "forward"),
    )
    found = ending(*calls, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.")

    assert found.remedy.startswith(advice) or advice in found.remedy


def test_a_case_that_a_person_describes_explains_a_fault_of_a_running_engine() -> None:
    """The form of vllm-project/vllm#15041, without its title."""
    at = "ERROR 03-18 14:46:40 [core.py:341]"
    found = ending(
        "### Describe the bug",
        "",
        "If sending requests with duplicate request_id to the server, the engine will crash immediately.",
        "",
        "INFO:     Application startup complete.",
        f"{at} EngineCore hit an exception: {HEADER}",
        f'{at}   File "/x/site-packages/vllm/v1/worker/gpu_model_runner.py", line 479, in _prepare_inputs',
        f"{at} IndexError: index 1 is out of bounds for axis 0 with size 1",
    )

    assert (found.cause, found.type, found.serving) == ("request_id_used_twice", "IndexError", True)


def test_a_worker_s_calls_stand_below_the_message_that_it_logs() -> None:
    """vLLM 0.4.3 to 0.8.2, executor/multiproc_worker_utils.py; the form of vllm-project/vllm#8903."""
    at = "(VllmWorkerProcess pid=2) ERROR 09-27 05:20:38 multiproc_worker_utils.py:233]"
    method = "determine_num_available_blocks"
    found = ending(
        f"{at} Exception in worker VllmWorkerProcess while processing method {method}: CUDA out of memory. "
        f"Tried to allocate 1.00 GiB., {HEADER}",
        f'{at}   File "/x/vllm/executor/multiproc_worker_utils.py", line 226, in _run_worker_process',
        f'{at}   File "/x/vllm/worker/worker.py", line 223, in {method}',
        f'{at}   File "/x/vllm/model_executor/models/mllama.py", line 561, in forward',
    )

    assert found.cause == "out_of_memory"
    assert "--max-num-seqs" in found.remedy


def test_a_traceback_is_read_before_a_title_that_quotes_it() -> None:
    """The form of vllm-project/vllm#13054: a model on Gaudi, which passes the decorator uncompiled."""
    message = "RuntimeError: view size is not compatible with input tensor's size and stride."
    found = ending(
        f"[Bug]: {message} on Gaudi2",
        "```",
        HEADER,
        frame("vllm/worker/hpu_model_runner.py", "profile_run", "self.warmup_scenario()"),
        frame("vllm/compilation/decorators.py", "__call__", "return self.forward(*args, **kwargs)"),
        frame("vllm/model_executor/models/qwen2.py", "forward", "q, k = self.rotary_emb(positions, q, k)"),
        frame("vllm/model_executor/layers/rotary_embedding.py", "forward", "query = query.view(n, -1, size)"),
        message,
        "```",
    )
    assert found.line == 12
    assert found.cause != "compile_failed"
    assert "--enforce-eager" not in found.remedy


def test_a_title_that_no_traceback_repeats_stays() -> None:
    found = ending("[Bug]: RuntimeError: view size is not compatible with input tensor's size on HPU", "x")
    assert found.line == 1
