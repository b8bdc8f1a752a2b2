"""Issues of late 2025 and 2026: what a title says, and what is no message of the program."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        # Python's own error beside a noun: vllm-project/vllm#31599, #42593, #38999
        ("[Bug]: AssertionError in `per_token_quant_int8` for long input", "engine_fault"),
        (
            "[Bug]: --enable-x crashes with AttributeError on models (missing architecture check)",
            "engine_fault",
        ),
        (
            "[Bug]: a model crashes with `-dp 2` - AssertionError in cuda_communicator all_gather",
            "engine_fault",
        ),
        # vllm-project/vllm#42125: blocks that are used again are no lack of memory, and no output is shown
        (
            "[Bug]: Runtime LoRA reload can reuse stale prefix-cache blocks from previous adapter",
            None,
        ),
        # vllm-project/vllm#38411
        ("[Bug]: Vision encoder crashes on SM100 - compiled for SM80-only", "no_kernels_for_this_gpu"),
        # vllm-project/vllm#31404, #42489, #40382, #35268, #34413, #34705
        ("[Bug]: MM cache AssertionError crashes engine, causes request aborts", "media_cache_out_of_step"),
        ("[Bug]: streaming_update can overflow prompt width in gpu_input_batch.add_request", "engine_fault"),
        (
            "[Bug]: Gemma-4 + DFlash unservable on Ampere - non-causal has no compatible attention backend",
            "no_attention_backend",
        ),
        (
            "[Bug]: the rerank API does not support query with mixed image and text inputs.",
            "feature_not_supported",
        ),
        ("The model is loading but the speed is about 1 tps against 60tps before", "slower_than_expected"),
        ("[Bug]: Old torch compile files cause poor CPU utilisation", "slower_than_expected"),
        # vllm-project/vllm#35521, #28396, #39096, #27604
        ("[Bug]: Suffix decoding crashes with assert total_num_scheduled_tokens > 0", "engine_fault"),
        ("[Bug]: Sporadic out.is_contiguous assert crashes with Kimi-K2-Thinking", "engine_fault"),
        ("[Bug]: Batch invariance breaks with torch.compile and/or CUDA graphs on SM<90", "wrong_output"),
        (
            "[Bug]: Is Flashinfer Attn backend supposed to work with FP8 KV cache on Hopper?",
            "no_attention_backend",
        ),
        # vllm-project/vllm#27921
        (
            '400 Bad Request {"message": "1 validation error for list[function-wrap[log_extra_fields()]]"}',
            "request_refused",
        ),
        # vllm-project/vllm#27559, #33661
        (
            "[Bug]: 0.10.1 worked, 0.11.0 failed. The log file said that the memory is not enough",
            "out_of_memory",
        ),
        ("[Bug]: Hadamard Transform R4 weight length assertion", "engine_fault"),
        # vllm-project/vllm#36697
        (
            "[Bug]: Validation Error: block_size (2096) > max_num_batched_tokens (2048) with prefix caching",
            "batch_smaller_than_length",
        ),
        # vllm-project/vllm#44181, #31154 and #43315
        ("[Bug]: Severe GPU Memory Leak and OOM with Native KV Offloading", "memory_grows"),
        (
            "[Bug]: Ngram draft tokens diverge across TP ranks when using external_launcher",
            "speculation_failed",
        ),
        ("[Bug]: MTP speculative decoding hangs on PCIe TP=8 without NVLink", "speculation_failed"),
        # vllm-project/vllm#32919
        ("[Bug]: Memory fault access when serving a model with mori-ep", "rocm_fault"),
    ],
)
def test_a_title_is_read_by_what_it_says(title: str, cause: str | None) -> None:
    found = diagnose(read_log(f"{title}\n\nDetails follow.\n"), None)
    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    "title",
    [
        "[Bug]: What happened to /get_world_size ?",
        "[Bug]: `collect_env.py` crashes on macOS due to an unconditional assert",
    ],
)
def test_what_is_asked_or_is_no_engine_has_no_cause(title: str) -> None:
    found = diagnose(read_log(f"{title}\n"), None)
    assert found is None or found.cause is None


def test_what_a_sentence_says_of_the_wrapper_gives_way_to_what_it_wraps() -> None:
    """vllm-project/vllm#38428."""
    text = (
        "[Bug]: V1 Engine: EngineDeadError (AssertionError) on overflow\n\n"
        "Reaching the limit results in a crash (`EngineDeadError`) of the engine. It triggers an assertion "
        "(`AssertionError: Sampled token IDs exceed the max model length`) in the scheduler.\n"
    )
    assert ending(text).message == "Sampled token IDs exceed the max model length"


def test_a_command_is_no_message() -> None:
    """vllm-project/vllm#27209: a variable that names a library is none of its failures."""
    command = "export VLLM_ALL2ALL_BACKEND=pplx NVSHMEM_REMOTE_TRANSPORT=none"
    text = f"[Bug]: Hang with DP=2, backend = pplx\n\n{command}\n"
    assert ending(text).line == 1


def test_the_report_of_use_is_not_why_an_engine_died() -> None:
    """Excerpts of hotschmoe/b70_ai_things, agentic-eval/results/logs/w8a8_mtpon_faulthandler.log."""
    text = (
        '(Worker_TP0 pid=136)     raise JSONDecodeError("Expecting value", s, err.value) from None\n'
        "(Worker_TP0 pid=136) json.decoder.JSONDecodeError: Expecting value: line 1 column 2 (char 1)\n"
        "Fatal Python error: Aborted\n"
        "(APIServer pid=1) ERROR 06-25 06:46:16 [async_llm.py:704] vllm.v1.engine.exceptions."
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
    )
    assert ending(text).cause == "process_crashed"


def test_exceptions_of_java_are_none_of_the_engine() -> None:
    raised = "java.lang.UnsupportedOperationException: Delete this statement."
    found = diagnose(read_log(f"GoCountingTest > t() FAILED\n    {raised}\n"), None)
    assert found is None or (found.cause is None and not found.type)


@pytest.mark.parametrize(
    ("line", "helps"),
    [
        ("Abort was called at 84 line in file:\n../../neo/shared/linear_stream.h", "compute runtime"),
        ("UR_RESULT_ERROR_DEVICE_LOST", "Reset it"),
        ("RuntimeError: oneCCL: sched algorithms do not support sycl_graph recording", "--enforce-eager"),
    ],
)
def test_what_fails_on_an_intel_gpu_is_told_apart(line: str, helps: str) -> None:
    """Lines of hotschmoe/b70_ai_things, results/logs."""
    found = ending(line)
    assert (found.cause, helps in found.remedy) == ("xpu_fault", True)


def test_variables_of_nccl_are_not_for_intel() -> None:
    text = (
        "INFO 06-25 07:15:08 [xpu_worker.py:1] x\nvllm serve a/b -tp 2\n"
        "TimeoutError: RPC call to sample_tokens timed out.\n"
    )
    assert "NCCL_P2P_DISABLE" not in ending(text).remedy
    assert "NCCL_P2P_DISABLE" in ending(text.replace("xpu_worker", "gpu_worker")).remedy


def test_a_failing_test_is_named_so() -> None:
    """vllm-project/vllm#38929."""
    text = "[Bug]: Draft model tests failing\n\nAssertionError: Expected async_scheduling=True, got False.\n"
    assert ending(text).cause == "test_not_passed"


def test_an_older_release_that_works_is_quoted() -> None:
    """vllm-project/vllm#43298."""
    text = (
        "[Bug]: A class crashes with AttributeError: 'use_mha' on vLLM 0.21.0\n\n"
        "This worked in vLLM 0.19.x / 0.20.2 and regressed in 0.21.0.\n"
    )
    assert [each.words for each in ending(text).works] == [
        "This worked in vLLM 0.19.x / 0.20.2 and regressed in 0.21.0."
    ]


def test_one_rank_is_not_told_to_mend_the_exchange_of_ranks() -> None:
    """vllm-project/vllm#30819."""
    command = "vllm serve org/model --max-num-seqs 64{}\n"
    title = "[Bug]: vLLM gets stuck when a video is requested\n\n"
    assert "NCCL_P2P_DISABLE" not in ending(title + command.format("")).remedy
    assert "NCCL_P2P_DISABLE" in ending(title + command.format(" -tp 2")).remedy


def test_an_exception_behind_a_verb_is_shown() -> None:
    """vllm-project/vllm#27729: a sentence that begins like a statement is none."""
    said = "throw exception: `AttributeError: 'int' object has no attribute 'isdigit'`"
    text = f"[Bug]: The T4 throws an error\n\n{said}\n"
    assert ending(text).type == "AttributeError"


def test_a_platform_in_the_brackets_of_a_title_counts() -> None:
    """vllm-project/vllm#43750."""
    raised = "AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'"
    found = ending(f"[Bug]: [XPU] a selector ignores the platform\n\n{raised}\n")
    assert "the XPU build" in found.remedy
    assert "ROCm" not in found.remedy


def test_speculation_that_the_text_denies_is_not_advised_against() -> None:
    """vllm-project/vllm#44200."""
    raised = "RuntimeError: Expected all tensors to be on the same device, but got index is on cpu"
    text = f"[Bug]: pruning crashes with speculative decoding\n\n{raised}\n"
    assert "which the text says is on" in ending(text).remedy
    text += "This is independent of speculative decoding.\n"
    assert "which the text says is on" not in ending(text).remedy


def test_a_warning_of_a_document_is_no_failure() -> None:
    """Forms of sentences in wentbackward/spark-vllm-docker, README.md."""
    for said in (
        "Do not use this loader for large models, as it may result in out of memory situation.",
        "Do not do it every time you rebuild, because it will slow down compilation times.",
    ):
        found = diagnose(
            read_log(f"### Run\n\nTo launch the model on a cluster run the script.\n\n{said}\n"), None
        )
        assert found is None


CHECKED = """\
[Bug]: gpt-oss crash

DEBUG 11-11 07:12:45 [platforms/__init__.py:55] TPU platform is not available because: no libtpu
DEBUG 11-11 07:12:45 [platforms/__init__.py:88] Exception happens when checking CUDA platform: NVML Shared \
Library Not Found
DEBUG 11-11 07:12:45 [platforms/__init__.py:105] CUDA platform is not available because: NVML Shared Library \
Not Found
"""
CONFIRMED = "DEBUG 11-11 07:12:45 [platforms/__init__.py:120] Confirmed ROCm platform is available.\n"


def test_a_platform_that_is_not_there_is_no_failure_beside_one_that_is() -> None:
    """The form of vllm-project/vllm#28451."""
    assert ending(CHECKED).cause == "driver_library_not_found"
    assert ending(CHECKED + CONFIRMED).cause != "driver_library_not_found"


SERVED = """
(APIServer pid=6112) INFO:     Started server process [6112]
(APIServer pid=6112) INFO:     Waiting for application startup.
(APIServer pid=6112) INFO:     Application startup complete.
"""
CURL = "curl: (7) Failed to connect to 127.0.0.1 port 8000 after 1 ms: Couldn't connect to server\n"


def test_a_client_does_not_reach_a_server_that_came_up() -> None:
    """The form of vllm-project/vllm#38820."""
    found = ending(f"[Usage]: port question\n\nI cannot access the port. {CURL}{SERVED}")

    assert found.cause == "server_not_reached"
    assert found.serving
    assert "on which address and port it listens" in found.remedy
    # A script that waits until the server is up asks it before it is.
    assert diagnose(read_log(CURL + SERVED), None) is None


def test_a_title_names_the_crash_of_a_server_whose_log_ends_where_it_serves() -> None:
    """The form of vllm-project/vllm#27907."""
    crash = ending(f"[Bug]: a model crashed when processing with audio\n\n{SERVED}")

    assert (crash.cause, crash.serving) == ("engine_died_serving", True)


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        # vllm-project/vllm#40350, #35772
        ("[Bug]: the engine hangs (0 tok/s) under high concurrency", "--no-async-scheduling"),
        ("[Bug]: Hang on startup during cudagraph capture TP>1", "fuse_allreduce_rms"),
        # vllm-project/vllm#43062
        ("[Bug]: --convert classify crashes on Qwen3-Reranker due to missing score.weight", "--hf-overrides"),
        # vllm-project/vllm#38979
        (
            "The page size of the layer is not divisible by the maximum page size; --speculative-config {}",
            "Start without --speculative-config",
        ),
    ],
)
def test_a_form_tells_what_helps(said: str, helps: str) -> None:
    assert helps in ending(said).remedy


def test_the_flags_of_a_config_that_every_log_has_show_no_hang_in_a_capture() -> None:
    """vLLM 0.14.0 and newer, config/vllm.py: the config names its passes."""
    found = ending("[Bug]: the engine hangs\n\n{'pass_config': {'fuse_allreduce_rms': False}}")

    assert found.cause == "worker_hangs"
    assert "fuse_allreduce_rms" not in found.remedy


def test_several_hosts_that_fail_are_no_class_without_stages() -> None:
    """The title of vllm-project/vllm#30269; a class without stages fails on one host too."""
    assert ending("[Bug]: Multi-node deployment fails with TP=1 and PP=2").cause != "pipeline_not_supported"


def test_an_exception_that_ends_a_sentence_is_shown_without_the_sentence() -> None:
    """The form of vllm-project/vllm#7978."""
    message = "As of transformers v4.44, default chat template is no longer allowed, so you must provide one."
    found = ending(f"Hi same issue for me. Can someone help ? ValueError: {message}\n")

    assert (found.cause, found.type, found.message) == ("no_usable_chat_template", "ValueError", message)


def test_a_model_type_that_transformers_does_not_know_asks_for_a_newer_library() -> None:
    """The form of vllm-project/vllm#8682: what follows from the KeyError is cut off."""
    found = ending(
        "Traceback (most recent call last):\n"
        '  File "/usr/local/lib/python3.12/dist-packages/transformers/models/auto/configuration_auto.py", '
        "line 993, in from_pretrained\n"
        '    config_class = CONFIG_MAPPING[config_dict["model_type"]]\n'
        '  File "/usr/local/lib/python3.12/dist-packages/transformers/models/auto/configuration_auto.py", '
        "line 695, in __getitem__\n"
        "    raise KeyError(key)\n"
        "KeyError: 'qwen2_vl'\n"
    )

    assert found.cause == "unknown_architecture"
    assert "pip install -U transformers" in found.remedy


def test_a_message_with_long_values_is_known_by_its_fixed_words() -> None:
    """The form of vllm-project/vllm#16474 (vLLM 0.8.3, quark_moe.py): the class stood in what is cut off."""
    scheme = "num_bits=8 type='float' symmetric=True group_size=None strategy='channel' dynamic=False"
    found = ending(
        "ERROR 04-11 09:53:58 [engine.py:448] For FP8 Fused MoE layers, only per-tensor scales for weights "
        f"and activations are supported. Found {scheme}, {scheme}, {scheme}\n"
        "ERROR 04-11 09:53:58 [engine.py:448] Traceback (most recent call last):\n"
    )

    assert found.cause == "quantization_not_supported"


def test_a_build_of_a_checkout_without_tags_is_no_release_0_1() -> None:
    """collect_env in vllm-project/vllm#13258: setuptools_scm counts from 0.1 there."""
    log = read_log("ROCM Version: Could not collect\nvLLM Version: 0.1.dev3151+g31c7178 (git sha: 31c7178\n")

    assert log.around.release == "0.1.dev3151+g31c7178"


def test_the_body_of_a_request_gives_no_flags() -> None:
    """Its `stream` would be read as a beginning of --stream-interval."""
    body = '{"messages":[{"role":"user","content":"hi"}],"max_tokens":8192,"model":"a/vllm-b","stream":true}'
    log = read_log(f"The request fails:\n```\n{body}\n```\n")

    assert (log.model, log.flags, log.unmodelled) == (None, {}, ())


@pytest.mark.parametrize("word", ["for", "bash", "The"])
def test_a_word_of_a_sentence_is_no_model(word: str) -> None:
    """The form of vllm-project/vllm#18162."""
    assert read_log(f"Start it with `vllm serve {word}` and\n").model is None


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        # Tencent-Hunyuan/HunyuanImage-3.0#80, vllm-project/vllm-omni#3432
        (
            "vLLM uses non-existent tokenizer attrs: special_token_map / all_special_tokens_extended",
            "transformers_too_new",
        ),
        ("[Bug]: test_sd3_medium, stabilityai/sd3.5 does not appear to have files", "model_file_missing"),
    ],
)
def test_a_title_names_the_cause_in_a_program_s_words(title: str, cause: str) -> None:
    log = "ERROR 05-07 18:37:29 [async_omni_engine.py:1022] [AsyncOmniEngine] Stage initialization failed\n"
    assert ending(f"{title}\n\n{log}").cause == cause


def test_a_setting_that_is_not_given_is_none_to_leave_out() -> None:
    """The form of vllm-project/vllm#8382."""
    log = read_log("[Bug]: Pixtral fails when limit_mm_per_prompt not set\n\nThe server does not start.\n")

    assert log.around.titled == ()
