"""What the program says comes before what a person says of it, and a message is quoted whole and alone."""

import pytest

from service.application.text.explanation import render_explanation
from service.explanation.diagnosis import diagnose
from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def _ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


def _text(text: str) -> str:
    words = render_explanation(explain(read_log(text), None, gpu_specified=False))
    return " ".join(words.split())


WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.mark.parametrize(
    "title",
    [
        # The forms of vllm-project/vllm#23826, ARahim3/kaggle-tpu-lab#7 and vllm-project/vllm#27620
        "5090 cannot run Some-Model-30B-NVFP4",
        "[Bug]: the compile phase is reached, then it dies after about 2 minutes",
        "[Bug]: --enable-lora crashes the server",
    ],
)
def test_the_front_end_s_error_is_shown_without_the_cause_of_a_title(title: str) -> None:
    """vLLM 0.19.0, v1/engine/utils.py wait_for_engine_startup."""
    found = _ending(f"{title}\n(APIServer pid=2)     raise RuntimeError(\n(APIServer pid=2) {WRAPPER}\n")

    assert (found.cause, found.line) == (None, 3)
    assert "lines above" in found.wanted


def test_what_a_title_says_beside_the_front_end_s_error_is_the_text_s() -> None:
    found = _ending(f"[Bug]: --enable-lora crashes the server\n{WRAPPER}\n")

    assert found.said is not None
    assert (found.said.cause, found.said.line) == ("adapter_failed", 1)
    assert "The text says on line 1" in _text(f"[Bug]: --enable-lora crashes the server\n{WRAPPER}\n")


def test_the_name_of_a_model_says_nothing_beside_the_front_end_s_error() -> None:
    assert _ending(f"cannot run Some-Model-30B-NVFP4\n{WRAPPER}\n").said is None


def test_an_exception_without_a_known_cause_is_shown_and_not_the_title_s_cause() -> None:
    """The form of vllm-project/vllm#18266."""
    found = _ending(
        "Some-Model cannot handle more than 1 image with pipeline parallelism\n"
        "RuntimeError: query, key and positions must have the same number of tokens\n"
        "vLLM 0.8.5.post1, V0\n"
    )

    assert (found.cause, found.type) == (None, "RuntimeError")
    assert found.message == "query, key and positions must have the same number of tokens"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        # vLLM 0.8.5, platforms/__init__.py: what is logged where no device is found
        (
            (
                "Cannot install on bare metal with a GPU\n"
                "INFO 05-20 21:02:15 [__init__.py:252] No platform detected, vLLM is running on "
                "UnspecifiedPlatform\nThe pods are in CrashLoopBackOff."
            ),
            "no_gpu_visible",
        ),
        (
            (
                "Cannot serve on a Ray cluster in Kubernetes\n"
                "DEBUG 10-22 06:30:11 [platforms/__init__.py:99] CUDA platform is not available because: "
                "NVML Shared Library Not Found"
            ),
            "driver_library_not_found",
        ),
        # Ray 2, plasma/store_runner.cc
        (
            (
                "vLLM + pipeline parallelism fails in a container\n"
                "[2026-03-25 06:12:10,101 W 41 41] (raylet) store_runner.cc:83: System memory request "
                "exceeds memory "
                "available in /dev/shm. The request is for 10200547328 bytes, and the amount available is "
                "9663676416"
            ),
            "ray_store_beyond_shm",
        ),
        # vLLM 0.17.0, v1/core/kv_cache_utils.py, with the core's error cut off
        (
            (
                "It crashes at startup with LMCache\n"
                "(EngineCore_DP0 pid=2) WARNING 03-04 13:10:30 [kv_cache_utils.py:1170] Hybrid KV cache "
                "manager is "
                "disabled for this hybrid model, This means we do not enable any optimizations\n"
                "(EngineCore_DP0 pid=2) ERROR 03-04 13:10:30 [core.py:1029] EngineCore failed to start."
            ),
            "caches_of_no_common_type",
        ),
        # vLLM 0.19.0, v1/engine/input_processor.py
        (
            (
                'Images fail. Error 400: {"error":{"message":"The decoder prompt contains a(n) image item '
                'with length 6042, which exceeds the pre-allocated encoder cache size 4800. Please reduce"}}'
            ),
            "media_longer_than_encoder_cache",
        ),
    ],
)
def test_a_message_of_the_program_of_any_level_comes_before_a_title(lines: str, cause: str) -> None:
    assert _ending(lines).cause == cause


def test_a_device_that_was_not_found_says_nothing_where_another_was() -> None:
    found = _ending(
        "[Bug]: tool calls are not parsed\n"
        "DEBUG 10-22 06:30:11 [platforms/__init__.py:99] CUDA platform is not available because: NVML Shared "
        "Library Not Found\n"
        "INFO 10-22 06:30:12 [__init__.py:2] Automatically detected platform rocm.\n"
    )

    assert found.cause == "tool_call_not_parsed"


def test_a_check_of_c_is_the_program_s_own_message() -> None:
    """TVM's ICHECK prints both sides; the form of vllm-project/vllm#51824."""
    found = _ending(
        "Start crash\nexpert_indices.size(1) == args->top_k (1 vs. 6) : expert_indices dim1 must match "
        "top_k.\n"
    )

    assert (found.cause, found.line) == (None, 2)
    assert "(1 vs. 6)" in found.message


def test_a_limit_of_images_that_a_release_refuses_is_not_only_a_flag_too_many() -> None:
    """vLLM 0.9.2, config.py ModelConfig; the form of zai-org/GLM-V#9."""
    found = _ending(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, `limit_mm_per_prompt` is only supported for multimodal models. [type=value_error]\n"
    )

    assert found.cause == "settings_refused"
    assert "newer release" in found.remedy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # A message that a person wrapped.
        (
            (
                "ValueError: There is no module or parameter named\n'layers.0.mlp.down_proj.weight_scale' in "
                "XModel.\n"
            ),
            "There is no module or parameter named 'layers.0.mlp.down_proj.weight_scale' in XModel.",
        ),
        (
            (
                "Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger\n"
                "  than max_num_batched_tokens (512).\n"
            ),
            (
                "Chunked MM input disabled but max_tokens_per_mm_item (2496) is larger than "
                "max_num_batched_tokens (512)."
            ),
        ),
        # What follows is another sentence, a version or a command.
        (
            "ValueError: Architecture foo not supported\nllama.cpp runs it.\n",
            "Architecture foo not supported",
        ),
        (
            "ValueError: Model architectures ['F'] are not supported for now\nvllm==0.6.1\n",
            "Model architectures ['F'] are not supported for now",
        ),
        (
            (
                "`NotImplementedError: MegaMoE currently requires expert parallel`\nvllm serve a/b "
                "--block-size 256\n"
            ),
            "MegaMoE currently requires expert parallel",
        ),
    ],
)
def test_a_message_is_quoted_whole_and_alone(text: str, message: str) -> None:
    assert _ending(text).message == message


def test_the_hub_s_message_names_the_repository() -> None:
    """huggingface_hub 1, utils/_http.py: the message goes on below its heading."""
    found = _ending(
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1-2)\n\n"
        "Repository Not Found for url: https://huggingface.co/some/model/resolve/main/config.json.\n"
    )

    assert "some/model" in found.message


def test_a_machine_that_is_taken_for_a_tpu_has_failed() -> None:
    """vLLM 0.7.3, engine/llm_engine.py, on a machine with GPUs; deepseek-ai/DeepSeek-R1#318."""
    found = _ending(
        "vllm uses the wrong backend\n"
        "INFO 02-07 19:10:08 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: "
        "model='.', "
        'quantization=tpu_int8, compilation_config={"level":2,"backend":"openxla"}\n'
    )

    assert found.cause == "wrong_platform_chosen"
    assert "libtpu" in found.remedy


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("There is no module or parameter named 'layers.0.mlp.down_proj.weight_scale' in XModel", "`ignore`"),
        ("There is no module or parameter named 'embed_tokens' in LlamaForCausalLM", "eagle"),
        ("There is no module or parameter named 'layers.0.foo.weight' in XModel", "release that knows"),
    ],
)
def test_a_weight_without_a_place_is_told_by_its_name(message: str, words: str) -> None:
    """vLLM 0.19.0, model_executor/models/utils.py AutoWeightsLoader."""
    found = _ending(f"ValueError: {message}\n")

    assert found.cause == "weights_do_not_fit_the_class"
    assert words in found.remedy


LOADING = (
    "(Worker_TP1 pid=161) ERROR 04-13 13:20:01 [multiproc_executor.py:852]   File "
    '"/x/site-packages/vllm/model_executor/models/utils.py", line 295, in _load_module'
)


def test_calls_come_before_the_name_of_a_quantized_model() -> None:
    """The form of intel/auto-round#1499: the title has the words of a quantization in a name alone."""
    found = _ending(f"[Bug]: Some-80B-Instruct-int4-mixed-AutoRound inference failed\n{LOADING}\n")

    assert found.cause == "weights_do_not_fit_the_class"


def test_an_error_that_was_cut_comes_before_a_hang_in_a_title() -> None:
    """The form of wtdcode/vllm-backport#14."""
    where = "(Worker_TP5_EP5 pid=2) ERROR 08-06 17:13:39 [multiproc_executor.py:1020]   File "
    file = "/x/site-packages/vllm/model_executor/kernels/linear/scaled_mm/triton.py"
    found = _ending(f'[Bug]: Got stuck on 8 * L40s\n{where}"{file}", line 198, in _w8a8_func\n')

    assert (found.cause, found.hangs, found.line) == (None, False, 2)


def test_ranks_that_have_loaded_the_model_do_not_hang_in_their_first_exchange() -> None:
    """The form of vllm-project/vllm#19204."""
    title = "[Bug]: with 2 GPUs and tensor_parallel_size=2 it hangs\n"
    loaded = (
        "INFO 06-05 10:48:09 [gpu_model_runner.py:1933] Graph capturing finished in 30 secs, took 2 GiB\n"
    )

    assert _ending(title).cause == "ranks_hang_in_exchange"
    assert _ending(title + loaded).cause == "worker_hangs"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vLLM 0.7.2, entrypoints/chat_utils.py
        ("ImportError: please install vllm[video] for video support", "package_missing"),
        # transformers 4.50, models/qwen2_5_vl/processing_qwen2_5_vl.py
        (
            (
                "ValueError: The length of fps (3) must be equal to the length of video_grid_thw (1) or fps "
                "should"
            ),
            None,
        ),
        # vLLM 0.9.2, model_executor/models/utils.py _merge_multimodal_embeddings
        (
            "ValueError: Attempted to assign 2044 = 2044 multimodal tokens to 2042 placeholders",
            "multimodal_input_not_processed",
        ),
        # vLLM 0.25.0, v1/worker/gpu_model_runner.py
        (
            (
                "RuntimeError: Worker failed with error 'PP+async expects sampled_token_ids to have shape "
                "[num_reqs, 1]'"
            ),
            "speculation_not_supported",
        ),
    ],
)
def test_messages_of_requests_and_drafts_are_known(text: str, cause: str | None) -> None:
    assert _ending(text + "\n").cause == cause


def test_an_exception_in_brackets_of_a_title_is_read() -> None:
    found = _ending("[Bug]: Unable to use speculative decoding (KeyError: 40)\n")

    assert (found.type, found.message) == ("KeyError", "40")


WAITING = (
    "(EngineCore pid=7) INFO 06-07 17:40:05 [ray_utils.py:464] Waiting for creating a placement group of "
    "specs "
    "for 150 seconds. specs=[{'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` and `ray list nodes`"
)


def test_a_hang_in_a_title_is_shown_in_the_program_s_words_with_what_ray_counts() -> None:
    """vLLM 0.22.0, v1/executor/ray_utils.py; Ray 2, `ray status`; the form of gpustack/gpustack#5509."""
    status = "0.0/34.0 CPU\n0.0/{}.0 GPU\nPending Demands:\n{{'GPU': 1.0}} * 2 (PACK): 1+ pending\n"
    found = _ending(f"Stuck waiting for a placement group\n{WAITING}\n{status.format(1)}")

    assert (found.cause, found.line, found.hangs) == ("ray_cluster_not_ready", 2, True)
    assert "2 GPUs, of which it knows 1" in found.offers[0]
    assert _ending(f"Stuck waiting for a placement group\n{WAITING}\n{status.format(8)}").offers == ()


def test_the_model_is_read_from_the_address_that_the_hub_refused() -> None:
    text = "RepositoryNotFoundError: 401 Client Error. (Request ID: R)\nRepository Not Found for url: {}.\n"
    log = read_log(text.format("https://huggingface.co/some/model-27B/resolve/main/config.json"))

    assert log.model == "some/model-27B"


def test_a_release_of_an_image_is_read() -> None:
    assert read_log("It fails.\nImages 0.28.0 and 0.27.1, A100 80GB.\n").around.release == "0.28.0"
