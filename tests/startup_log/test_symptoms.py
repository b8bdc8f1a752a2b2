"""Failures that a person describes without any message of the engine."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.prose.sentences import plain_words, sentences
from service.startup_log.prose.symptoms import described
from service.startup_log.text.lines import read_lines

TITLES = [
    # Requests: docs/features/tool_calling, reasoning_outputs, structured_outputs; docs/serving.
    ("tool calls of Qwen3-Coder show up in content instead of tool_calls", "tool_call_not_parsed"),
    ("[Bug]: streaming tool call arguments are truncated with the hermes parser", "tool_call_not_parsed"),
    ("chat completions return 400 because the base model has no chat template", "no_usable_chat_template"),
    ("reasoning_content is always null with --reasoning-parser deepseek_r1", "reasoning_not_separated"),
    ("guided_json is ignored and the model answers in plain text", "grammar_not_applied"),
    ("[Bug]: xgrammar segfaults with a recursive schema", "grammar_failed"),
    ("Llama-3 never stops generating, it repeats until max_tokens", "output_does_not_end"),
    ("The model `gpt-3.5-turbo` does not exist, says the 404 of my client", "model_name_not_served"),
    ("401 unauthorized from our server although the client sends the api key", "not_authorized"),
    # langgenius/dify#38305
    ("vLLM health check returns 403 after upgrading Dify; requests from the host work", "not_authorized"),
    # kserve/kserve#6259: what a probe answers after the engine ended.
    ("[Bug]: liveness probe returns 200 OK after the vLLM engine crashes", "engine_died_serving"),
    # vllm-project/vllm#48277, triton-lang: OutOfResources, and an allocation told in two sentences.
    ("Platform plugin registration failures are swallowed, so it falls back to the CPU", "plugin_failed"),
    ("A Triton kernel wants 131072 bytes of shared memory, vllm crashes on my 3090", "kernel_tile_too_large"),
    ("While it loads it tried to allocate 500 MiB. Only 300 MiB were free.", "out_of_memory"),
    # What is generated, and how fast: docs/usage/troubleshooting, docs/configuration/optimization.
    (
        "[Bug]: Qwen2.5-7B AWQ generates garbage (!!!!!) since upgrading to 0.11.0",
        "output_of_quantized_weights",
    ),
    ("outputs are not deterministic with temperature 0", "wrong_output"),
    ("gsm8k accuracy drops from 0.85 to 0.02 with fp8 kv cache", "output_of_quantized_cache"),
    (
        "After sleep level 2 and wake up the answers are gibberish",
        "output_of_old_weights",
    ),
    ("Temperature 0 gives different output with EAGLE3 and without", "output_of_speculation"),
    ("The reranker is started, but the /rerank endpoint answers 404", "route_not_of_this_task"),
    ("[Performance]: speculative decoding with ngram is slower than without", "slower_than_expected"),
    ("prefix cache hit rate is always 0%", "cache_not_reused"),
    ("Host memory leak: RSS grows over hours with images", "memory_grows"),
    # vllm-project/vllm#25287: its writer has no log of the container yet.
    ("[Bug]: CrashLoopBackOff on AMD GPU (MI300x) with rocm/vllm container on Kubernetes", "crash_loop"),
    # A key that names a tensor says what the checkpoint brings: forms of vllm#18718 and skypilot#3638.
    (
        "Loading fails with KeyError on missing parameter 'layers.1.mlp.experts.0.scales'",
        "weights_do_not_fit_the_class",
    ),
    ("The tutorial does not work (cannot find vllm module)", "vllm_not_installed"),
    # The hub, names and flags.
    ("Cannot download meta-llama/Llama-3.1-8B-Instruct, I get 401", "hub_access_not_granted"),
    ("huggingface 403 forbidden when pulling a gated model inside docker", "hub_access_not_granted"),
    ("Port 8000 is already in use when I restart the server", "address_in_use"),
    ("Can't use tensor parallel size 3 for a model with 32 heads", "heads_do_not_divide"),
    ("vllm does not recognize model type gemma9", "unknown_architecture"),
    ("LoRA adapter cannot be loaded, target module embed_tokens unsupported", "adapter_does_not_fit"),
    ("Permission denied for /.cache when the container runs as non-root", "file_not_accessible"),
    # The form of a tensor's name, and of shards: OpenBMB/MiniCPM-V#789, vllm-project/vllm#52997 and #54178.
    (
        "\u52a0\u8f7d\u6a21\u578b\u62a5\u9519\uff08layers.0.mlp.down_proj.weight.absmax\uff09",
        "weights_do_not_fit_the_class",
    ),
    ("the engine cannot find the quantized weights of this checkpoint", "weights_do_not_fit_the_class"),
    (
        "FP8 checkpoint fails with TP 8: 80 rows are not divisible by block_n=128",
        "quantization_blocks_do_not_divide",
    ),
    # Features of a class: vllm-project/vllm#45455, #33685 and #22424.
    ("Pipeline parallelism is not supported for MiniMax-M3", "pipeline_not_supported"),
    ("[Bug]: AbcForCausalLM does not support pipeline parallelism", "pipeline_not_supported"),
    # vllm-project/vllm#40677, #55509, #29049 and #10643.
    ("FLASHINFER fails for Gemma 4, its head_size is not supported", "no_attention_backend"),
    ("OOM error when loading LoRA adapters", "out_of_memory"),
    ("GPU memory accounting issue with multiple vLLM instances", "memory_taken_by_others"),
    # vllm-project/vllm#31782, #25241, #28098, #35720 and docker/model-runner#611.
    ("**NVFP4-quantized** MoE models (llm-compressor) fail to initialize", "quantized_model_failed"),
    ("BF16 and INT8 dtype mismatch when a quantized model runs", "tensors_do_not_fit"),
    ("kv cache fp8 crash on sm<89", "fp8_cache_on_old_gpu"),
    ("all-minilm fails to load without --runner pooling", "pooling_not_supported"),
    # vllm-project/vllm#46480, #21713, #34016 and #19139; vllm-project/llm-compressor#996.
    ("draft crashes with AssertionError in unify_kv_cache_spec_page_size", "page_sizes_differ"),
    ("it throws miss some weight, but the model has no such weights", "weights_do_not_fit_the_class"),
    ("crashes when the weights are loaded directly from S3", "object_storage_refused"),
    ("Error when loading a model merged after training", "weights_do_not_fit_the_class"),
    ("W8A8 model can't be load by vllm", "quantized_model_failed"),
    # gpustack/gpustack#2259, vllm-project/vllm#11762, #36279 and flagos-ai/vllm-plugin-FL#471.
    ("The schedule does not meet that it is divisible by the attention heads", "heads_do_not_divide"),
    ("Failed to apply Qwen2VLProcessor when serving a fine model", "multimodal_input_not_processed"),
    ("cpu offload fails with AssertionError on Windows", "platform_not_supported"),
    ("dummy \u8f93\u5165 shape \u4e0d\u5339\u914d\u5bfc\u81f4\u5d29\u6e83", "tensors_do_not_fit"),
    # vllm-project/vllm#10534, ai-dynamo/dynamo#754 and #1492.
    ("Fail to load params.json", "model_config_not_read"),
    ("dynamo serve cannot use a local model while offline, the hub is asked", "model_not_found"),
    ("It requires GPU 0 to be available and cannot run without it", "memory_taken_by_others"),
    # Devices, memory, processes.
    ("no kernel image for RTX 5090 with vllm 0.8.2", "no_kernels_for_this_gpu"),
    ("[Bug]: CUDA OOM when serving Qwen3-32B with gpu_memory_utilization=0.9", "out_of_memory"),
    ("max_model_len 131072 does not fit in KV cache on a 24GB card", "kv_cache_smaller_than_one_request"),
    (
        "the second vllm instance on the same GPU fails, memory is taken by the first",
        "memory_taken_by_others",
    ),
    ("CUDA illegal memory access with chunked prefill on B200", "illegal_memory_access"),
    ('[Bug]: vllm serve hangs after "Loading safetensors checkpoint shards: 100%"', "worker_hangs"),
    ("NCCL timeout after 10 minutes when running DeepSeek-R1 with TP 16", "collective_timed_out"),
    ("multi-node vllm: the second node can't connect to the master", "ranks_not_connected"),
    ("vLLM doesn't detect GPU in docker", ("no_gpu_visible", "container_without_gpus")),
    ("undefined symbol error after pip install vllm with torch 2.9", "build_does_not_match"),
    ("[Installation]: building vllm from source fails on Jetson Orin", "install_failed"),
    # Containers and clients.
    ("Pod restarts because its liveness probe fails while weights load", "probe_ended_it"),
    (
        "connection refused when calling http://localhost:8000/v1/models from a container",
        "server_not_reached",
    ),
    ("NixlConnector: KV transfer between prefill and decode instance fails", "kv_connector_failed"),
    # eugr/spark-vllm-docker#227
    ("PACK placement group is unsatisfiable with one GPU per node", "ray_cluster_not_ready"),
    # Other languages.
    ("vllm \u90e8\u7f72 Qwen3 \u65f6\u663e\u5b58\u4e0d\u8db3", "out_of_memory"),
    ("\u8c03\u7528 tool call \u65f6\u62a5\u9519", "tool_call_not_parsed"),
]
QUIET = [
    "It served for three weeks without an error, thanks to everybody.",
    "How do I serve two models on one GPU?",
    "Our pods pull the model from a volume, and the tool calls are parsed with hermes.",
    "KV cache: 268,169 tokens at --max-model-len 240k",
    "I run Qwen3-32B on two L40S with a chat template of my own.",
    "No OOM so far with 0.95, and nothing hangs.",
    "5.9s 1 0.00s - Debugger warning: It seems that frozen modules are being used.",
    "We train an adapter beside frozen weights of the base model.",
    "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --port 8000",
    # The prompt of ms-swift's form for reports, modelscope/ms-swift#5301.
    "Write your system info like CUDA version/system/GPU/torch version here",
    "We read https://example.org/huggingface-hub-connection-error before, and it serves well.",
]


@pytest.mark.parametrize(("title", "cause"), TITLES)
@pytest.mark.parametrize(
    "form", ["{}", "# {}", "{}\n\n### Your current environment\n\nvLLM Version: 0.19.0\n"]
)
def test_a_title_names_its_cause(title: str, cause: str | tuple[str, ...], form: str) -> None:
    failure = read_log(form.format(title)).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name in cause if isinstance(cause, tuple) else failure.cause.name == cause


def test_a_mark_of_a_form_is_no_part_of_a_title() -> None:
    """The form of QwenLM/Qwen#1447."""
    failure = read_log("# [BUG] <title>bitsandbytes 4bit \u63a8\u7406\u62a5\u9519vllm\n").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "quantized_model_failed"


def test_a_heading_is_one_sentence() -> None:
    """The form of vllm-project/vllm#25241."""
    failure = read_log("# How to make a w4a8 checkpoint. I made one. But it does not work\n").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "quantized_model_failed"


@pytest.mark.parametrize("text", QUIET)
def test_what_complains_of_nothing_is_no_failure(text: str) -> None:
    assert read_log(text).failure is None


def test_a_title_that_only_complains_is_shown_without_a_cause() -> None:
    failure = read_log("[Bug]: vllm serve fails to start with our own model\n").failure

    assert failure is not None
    assert (failure.cause, failure.paraphrased, failure.line) == (None, True, 1)
    assert failure.message == "vllm serve fails to start with our own model"


def test_a_cut_traceback_says_more_than_a_title_that_only_complains() -> None:
    """vLLM 0.9.1, transformers_utils/processor.py: the frames show what was loaded."""
    frames = "\n".join(
        f'  File "/x/site-packages/{file}", line 9, in {function}'
        for file, function in (
            ("vllm/inputs/registry.py", "get_hf_processor"),
            ("vllm/transformers_utils/processor.py", "get_processor"),
            ("transformers/processing_utils.py", "from_pretrained"),
        )
    )
    failure = read_log(f"Deploying our model failed\n\n```\n{frames}\n```\n").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "multimodal_input_not_processed"


def test_a_server_that_cannot_bind_its_port_has_failed() -> None:
    """uvicorn 0.30, server.py startup: it binds after the application has started."""
    text = (
        "INFO:     Application startup complete.\n"
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
        "address already in use\n"
    )
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "address_in_use"


def test_what_was_tried_is_not_what_failed() -> None:
    failure = read_log(
        "The engine hangs after the weights are loaded on two nodes\n\n"
        "Set NCCL_P2P_DISABLE=1 and increased the timeouts of Ray.\n"
        "We tried another tokenizer, which fails too.\n"
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "worker_hangs"


def test_a_script_s_own_lines_are_nobody_s_words() -> None:
    banner = "INFO 10-26 11:35:30 [api_server.py:1896] vLLM API server version 0.10.2\n"

    assert read_log(f"Pulling the docker image\n(take 8889 if port 8888 is taken)\n{banner}").failure is None


def test_the_engine_s_words_come_before_a_title() -> None:
    text = "[Bug]: tool calls fail\n\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"

    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert (failure.cause.name, failure.paraphrased) == ("out_of_memory", False)


def test_a_title_says_more_than_the_engine_s_death() -> None:
    text = "[Bug]: illegal memory access with LoRA\n\nvllm.v1.engine.exceptions.EngineDeadError: it died\n"

    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "illegal_memory_access"


def test_the_words_of_a_command_in_a_sentence_are_no_model() -> None:
    assert read_log("[Bug]: vllm serve hangs with two cards").model is None
    assert read_log("$ vllm serve org/name --max-model-len 8").model == "org/name"


def test_code_and_fields_are_not_said() -> None:
    lines = read_lines(
        "Tool calls fail\n```\nit hangs\n```\nIs CUDA available: False\n    raise ValueError('it fails')\n"
        "- [x] I searched for issues\nThis happens with every release that I tried.\n"
    )
    said = sentences(lines)

    assert [each.text for each in said] == [
        "Tool calls fail",
        "This happens with every release that I tried.",
    ]
    assert described(said) is not None


def test_words_are_compared_without_their_marks() -> None:
    assert plain_words("`--tool-call-parser` isn't **set**!") == " tool call parser isn't set "


def test_one_rank_does_not_lack_gpus() -> None:
    """The title of verl-project/verl#521."""
    failure = read_log("[BUG] rollout: vllm > 0.7 fail to execute when world_size == 1").failure

    assert failure is not None
    assert failure.cause is None


def test_a_program_of_another_release_does_not_go_with_the_engine() -> None:
    """The title of verl-project/verl#3271: the adapter is only the case in which it shows."""
    failure = read_log("[Bug] verl 0.5.0 is incompatible with vLLM v1 API when using LoRA").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "build_does_not_match"
