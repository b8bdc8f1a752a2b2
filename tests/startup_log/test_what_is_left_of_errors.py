"""What is left of an error where only a heading, a status, a quotation or the name of a file shows it."""

import pytest

from service.startup_log.catalogue.engine_errors import engine_error, error_in_text
from service.startup_log.errors.known_classes import file_of_call
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

ACCESS = '(APIServer pid=1) INFO:     10.0.0.7:39458 - "POST /v1/chat/completions HTTP/1.1" {} {}\n'


def _failure(text: str) -> Failure | None:
    return read_log(text).failure


def _cause(text: str) -> str | None:
    failure = _failure(text)
    return None if failure is None or failure.cause is None else failure.cause.name


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("400 Bad Request", "request_refused"),
        ("401 Unauthorized", "not_authorized"),
        ("405 Method Not Allowed", "route_not_found"),
        ("500 Internal Server Error", "request_failed"),
    ],
)
def test_the_status_of_an_answer_counts_beside_a_complaint(status: str, cause: str) -> None:
    """uvicorn's access log: the status says what the client did not show (vLLM 0.33.0, entrypoints)."""
    assert (
        _cause(
            f"# my chat client\n\nIt does not work with the server.\n\n{ACCESS.format(*status.split(' ', 1))}"
        )
        == cause
    )


@pytest.mark.parametrize("asked", ["/favicon.ico", "/health", "/metrics", "/"])
def test_what_a_browser_or_a_monitor_asks_for_is_no_failure(asked: str) -> None:
    line = f'INFO:     10.0.0.7:39458 - "GET {asked} HTTP/1.1" 404 Not Found'

    assert _cause(f"# my chat client\n\nIt does not work with the server.\n\n{line}\n") is None


def test_a_refused_request_without_a_complaint_is_no_failure() -> None:
    log = (
        "INFO:     Application startup complete.\n"
        + ACCESS.format("400", "Bad Request")
        + ACCESS.format("200", "OK")
    )

    assert _failure(log) is None


@pytest.mark.parametrize(
    ("named", "cause"),
    [
        ("EngineDeadError", "engine_died_serving"),
        ("OutOfMemoryError", "out_of_memory"),
        ("ValueError", None),
    ],
)
def test_ray_s_heading_names_the_class_of_what_was_raised(named: str, cause: str | None) -> None:
    """ray 2.x, exceptions.py RayTaskError: the message stands below the traceback, which the text lacks."""
    failure = _failure(
        f"ray.exceptions.RayTaskError({named}): ray::Rollout.generate() (pid=957185, ip=10.0.0.7)\n"
        '  File "/usr/lib/python3.12/concurrent/futures/_base.py", line 449, in result\n'
        "    return self.__get_result()\n"
    )

    assert failure is not None
    assert failure.type == named
    assert (failure.cause.name if failure.cause else None) == cause


def test_python_s_error_in_the_title_comes_before_the_end_of_a_process() -> None:
    """verl-project/verl#4308: the log holds only what followed."""
    title = "# Rollout fails with 'NoneType' object has no attribute 'result'"
    failure = _failure(
        f"{title}\n\n"
        "ray.exceptions.RayTaskError(EngineDeadError): ray::Rollout.generate() (pid=957185, ip=10.0.0.7)\n"
    )

    assert failure is not None
    assert failure.message == title


@pytest.mark.parametrize(
    ("name", "function", "path"),
    [
        ("mamba_utils.py", "collect_mamba_copy_meta", "vllm/v1/worker/mamba_utils.py"),
        ("flash_attn_diffkv.py", "anything", "vllm/v1/attention/backends/flash_attn_diffkv.py"),
        ("main.py", "generate_all", ""),
        ("my_script.py", "generate_all", ""),
    ],
)
def test_a_file_without_its_folder_is_the_engine_s_if_it_has_the_function(
    name: str, function: str, path: str
) -> None:
    assert file_of_call(name, function) == path


def test_an_engine_s_file_without_its_folder_is_no_program_of_one_s_own() -> None:
    """vllm-project/vllm#44637."""
    frame = 'File "mamba_utils.py", line 118, in collect_mamba_copy_meta'
    text = f"{frame}\n    dest_block_id = block_ids[dest_block_idx]\nIndexError: list index out of range"

    assert _cause(text) == "engine_fault"
    assert _cause(text.replace("mamba_utils", "my_own_script")) == "program_fault"


def test_a_quoted_message_lacks_its_full_stop() -> None:
    """vLLM 0.20.2, compressed_tensors/utils.py find_matched_target, quoted in vllm-project/vllm#30969."""
    said = 'It says "Unable to find matching target for layers.0.q_proj in the compressed-tensors config"'
    found = error_in_text([said])

    assert found is not None
    assert found[1].function == "find_matched_target"


def test_a_message_that_is_cut_with_an_ellipsis_is_known_by_its_beginning() -> None:
    """vLLM 0.33.0, quantization/inc/config_parser.py _resolve_raw; intel/auto-round#1726."""
    cut = "Fused module 'model.layers.0.mlp.gate_up_proj' ..."
    found = engine_error("ValueError", cut)

    assert found is not None
    assert "consistent quant config" in "".join(found.parts)
    assert engine_error("KeyError", cut) is None
    assert engine_error("ValueError", cut.removesuffix(" ...")) is None


@pytest.mark.parametrize(
    ("line", "type_name"),
    [
        # What stands before the class can have a capital and a colon too.
        ("> Error calling LLM: litellm.BadRequestError: the server refuses it", "BadRequestError"),
        ("Stage LLM: ValueError: the stage is not known", "ValueError"),
    ],
)
def test_a_word_with_a_colon_before_an_exception_is_none(line: str, type_name: str) -> None:
    failure = _failure(line)

    assert failure is not None
    assert failure.type == type_name


def test_python_s_own_words_above_a_cut_traceback_count() -> None:
    """vLLM 0.9.2, engine/multiprocessing/engine.py logs it above; vllm-project/vllm#24217."""
    at = "ERROR 09-03 20:42:16 [engine.py:458]"
    log = (
        f"{at} cannot access local variable 'SomeMoEMethod' where it is not associated with a value\n"
        f"{at} Traceback (most recent call last):\n"
        f'{at}   File "/usr/lib/python3.12/vllm/multiprocessing/engine.py", line 446, in run_mp_engine\n'
        f"{at}     engine = MQLLMEngine.from_vllm_config(\n"
    )

    assert _cause(log) == "engine_fault"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Python's own words of a call, whoever's it is: NVlabs/Eagle#57.
        (
            "Failed:\nFailed to load model: AbcModel._check() got an unexpected keyword argument 'kernels'.",
            "call_not_known",
        ),
        ("# The model does not load since transformers 5.5 is installed", "transformers_too_new"),
        ("# [Bug]: our judge is not compatible with transformers v5", "transformers_too_new"),
        (
            "AttributeError: 'PreTrainedConfig' object has no attribute 'max_position_embeddings'",
            "transformers_too_new",
        ),
        # Denied verbs: vllm-project/vllm#43395, Mintplex-Labs/anything-llm#6099.
        (
            "# [Bug]: the Responses API does not surface reasoning output with the gemma4 parser",
            "reasoning_not_separated",
        ),
        ("# Client: the reasoning field of the answer is omitted", "reasoning_not_separated"),
        ("# [Bug]: tool calls are never emitted while streaming", "tool_call_not_parsed"),
        # Other platforms: vllm-project/vllm-ascend#2349 and #2925, vllm-project/vllm#24817.
        ("# vllm-ascend: after a while rtKernelLaunchWithHandleV2 failed: 507035", "ascend_fault"),
        (
            "[ERROR] 2026-01-02-03:04:05 (PID:2771862, Device:0, RankID:-1) ERR01100 OPS call acl api failed",
            "ascend_fault",
        ),
        ("# [Bug]: XPU (Arc A770) is broken since 0.10.0", "intel_gpu_failed"),
        ("# A kernel writes its state out of range and kills EngineCore", "illegal_memory_access"),
        ("# [Bug]: workers hang under load, sample_tokens RPC timeout, EngineDeadError", "step_timed_out"),
        (
            "Exception: Could not send runai_request to libstreamer due to: b'File access error'",
            "object_storage_refused",
        ),
        ("# [Bug]: Pydantic validation error when loading ModelConfig", "settings_refused"),
        ("AssertionError: Number of KV layers must match between prefill and decode", "kv_connector_failed"),
    ],
)
def test_a_cause_is_named(text: str, cause: str) -> None:
    assert _cause(text) == cause


def test_a_fork_s_release_is_not_vllm_s() -> None:
    """1CatAI/1Cat-vLLM counts its own releases."""
    assert read_log("- Abc-vLLM v1.3.0 wheel\nRuntimeError: it failed").release is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("KeyError: 'layers.0.attention.wk.weight'", "--load-format mistral"),
        ("AssertionError: External KV connector is not verified yet", "--no-enable-prefix-caching"),
        ("AssertionError: Number of KV layers must match between prefill and decode", "VLLM_KV_CACHE_LAYOUT"),
    ],
)
def test_the_remedy_is_that_of_the_form(text: str, words: str) -> None:
    failure = _failure(text)

    assert failure is not None
    assert failure.cause is not None
    assert words in next(
        form.remedy for form in failure.cause.forms if any(says in text for says in form.says)
    )


def test_a_message_ends_where_the_next_traceback_is_announced() -> None:
    """vllm-project/vllm#40856: a process in parentheses stands before empty lines too."""
    log = (
        "(APIServer pid=841) aiohttp.http_exceptions.ContentLengthError: 400, message:\n"
        "(APIServer pid=841)   Not enough data to satisfy content length header.\n"
        "(APIServer pid=841)\n"
        "(APIServer pid=841) The above exception was the direct cause of the following exception:\n"
    )
    failure = _failure(log)

    assert failure is not None
    assert failure.message == "400, message: Not enough data to satisfy content length header."


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # SageMaker's words; llm-jp/llm-jp-model-playground#39.
        (
            "> The primary container for production variant abc did not pass the ping health check.",
            "probe_ended_it",
        ),
        ("ERROR services.py:1207 -- Failed to start the dashboard, return code -11", "ray_cluster_not_ready"),
        ("# [Bug]: abc-8b-instruct running on v0.6.3.post1 crashes on an H20", "engine_died_serving"),
        # \u5931\u6557: fails.
        ("# vllm-ascend: aclnnAbc \u304c\u5931\u6557\u3057\u307e\u3059", "ascend_fault"),
    ],
)
def test_a_cause_is_named_in_the_words_of_other_programs(text: str, cause: str) -> None:
    assert _cause(text) == cause


def test_a_workspace_that_is_too_small_names_what_to_leave_out() -> None:
    """vLLM 0.33.0, v1/worker/workspace.py _ensure_workspace_size; vllm-project/vllm#42808."""
    text = "AssertionError: Workspace is locked but allocation from 'a.py:1:b' requires 0.76 MB."
    failure = _failure(text)

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "workspace_too_small"
    assert "--speculative-config" in failure.cause.remedy


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Values of a request that the release does not check: vllm-project/vllm#16836 and #48567.
        ("# [Bug]: /completions breaks when prompt_logprobs is 10", "request_not_checked"),
        ("# A logit_bias with token ids out of vocab crashes the engine", "request_not_checked"),
        ("OverflowError: out of range integral type conversion attempted", "request_not_checked"),
        # A conflict while packages are installed, and not between those that are: vllm-project/vllm#5576.
        ("# [Bug]: Installation issue with a torch version conflict", "install_failed"),
        ("# The torch version does not match after installing vllm", "build_does_not_match"),
        # Trainers: unslothai/unsloth#2107.
        ("AttributeError: 'LoraModel' object has no attribute 'vllm_engine'", "model_without_engine"),
        (
            "AssertionError: disaggregated KV cache transfer parallel group is not initialized",
            "kv_connector_failed",
        ),
        ("AssertionError: tensor model parallel group is not initialized", "distributed_state"),
        # Earlier words of the same rules: intel/intel-xpu-backend-for-triton#7158, vllm-project/vllm#4358.
        (
            "Value error, VLLM_USE_V2_MODEL_RUNNER does not yet support: hybrid/mamba models",
            "other_model_runner_needed",
        ),
        (
            "AssertionError: Speculative decoding not yet supported for RayGPU backend.",
            "speculation_not_supported",
        ),
    ],
)
def test_neighbouring_causes_are_told_apart(text: str, cause: str) -> None:
    assert _cause(text) == cause


def test_a_call_from_outside_of_the_engine_names_what_it_lacks() -> None:
    """vLLM 0.33.0, config/vllm.py get_current_vllm_config; NVIDIA-NeMo/RL#3168."""
    text = "RuntimeError: Current vLLM config is not set."
    failure = _failure(text)

    assert failure is not None
    assert failure.cause is not None
    assert "set_current_vllm_config" in (form.remedy if (form := failure.cause.form_of(text)) else "")


def test_an_error_among_the_examples_of_a_sentence_did_not_happen() -> None:
    """kserve/kserve#6259, in other words."""
    said = (
        "A predictor that fails to load (e.g., CUDA OOM, missing weights) shows MinimumReplicasUnavailable.\n"
    )

    failure = read_log(f"# Show the server's failure in the status\n\n{said}").failure

    assert failure is None or failure.cause is None or failure.cause.name != "out_of_memory"
