"""Weights that a trainer sends, that PEFT has wrapped or a GGUF file holds, and checks without words."""

import pytest

from service.startup_log.log import read_log

PREFIX = "(EngineCore_DP0 pid=91) ERROR 11-05 22:07:50 [core.py:720] "
LIBRARY = "/usr/local/lib/python3.12/dist-packages/"


def cause_of(text: str) -> str:
    failure = read_log(text).failure
    assert failure is not None
    return "" if failure.cause is None else failure.cause.name


def traceback(error: str, *calls: tuple[str, str, str]) -> str:
    frames = "".join(
        f'{PREFIX}  File "{LIBRARY}{path}", line 17, in {function}\n{PREFIX}    {source}\n'
        for path, function, source in calls
    )
    return f"{PREFIX}Traceback (most recent call last):\n{frames}{PREFIX}{error}\n"


@pytest.mark.parametrize(
    ("error", "function"),
    [
        # verl-project/verl#7978, verl-project/verl#6256, TIGER-AI-Lab/verl-tool#125
        (
            "ValueError: shard_dim=0 is not a valid data dimension for a 3D tensor (expected 1 or 2)",
            "_load_w13",
        ),
        ("KeyError: 'embed_tokens.weight'", "load_weights"),
        ("KeyError: 'layers.0.self_attn.qkv_proj.base_layer.weight'", "load_weights"),
    ],
)
def test_weights_that_a_trainer_sends_are_not_those_of_a_checkpoint(error: str, function: str) -> None:
    loaded = ("vllm/model_executor/models/qwen3_moe.py", function, "param = params_dict[name]")
    sent = ("verl/workers/rollout/vllm_rollout/utils.py", "update_weights_from_ipc", "self._update_weights(")

    assert cause_of(traceback(error, sent, loaded)) == "weights_not_transferred"
    if error.startswith("KeyError"):
        assert cause_of(traceback(error, loaded)) != "weights_not_transferred"


def test_a_trainer_of_another_release_calls_the_worker_wrongly() -> None:
    """verl-project/verl#7130: vLLM 0.12.0 takes no argument there."""
    error = "TypeError: Worker.reload_weights() got an unexpected keyword argument 'weights_iterator'"

    assert cause_of(error) == "weights_not_transferred"


def test_an_adapter_is_no_model() -> None:
    """unslothai/unsloth#1191; without a word of an adapter, the config is what is absent."""
    error = "ValueError: No supported config format found in"

    assert cause_of(f"{error} out/llama-lora-adapter") == "adapter_given_as_model"
    assert cause_of(f"{error} out/llama") == "model_config_not_read"


def test_a_vocabulary_of_another_size_in_a_gguf_file() -> None:
    """vllm-project/vllm#8697."""
    check = "assert loaded_weight.shape[output_dim] == self.org_vocab_size"
    text = traceback(
        "AssertionError",
        ("vllm/model_executor/models/qwen2.py", "load_weights", "weight_loader(param, loaded_weight)"),
        ("vllm/model_executor/layers/vocab_parallel_embedding.py", "weight_loader", check),
    )

    assert cause_of(f"vllm serve /models/qwen2.5-32b-q3_k_m.gguf --quantization gguf\n{text}") == (
        "gguf_weights_do_not_fit"
    )
    assert cause_of(text) == "weights_do_not_fit_the_class"


@pytest.mark.parametrize(
    ("path", "check", "cause"),
    [
        # vLLM 0.33.0 and 0.19.0: checks without words of their own.
        ("model_executor/models/gemma2.py", "self.total_num_kv_heads % tp_size == 0", "heads_do_not_divide"),
        ("model_executor/models/bamba.py", "self.total_num_heads % tp_size == 0", "heads_do_not_divide"),
        ("v1/attention/backends/mla/common.py", "isinstance(prefill, Cudnn)", "engine_fault"),
        ("v1/attention/backends/flash_attn.py", "is_fa_version_supported(version)", "no_attention_backend"),
        # Names in the source of a check are no words about tokenizers and graphs.
        ("entrypoints/openai/chat_completion/serving.py", "tokenizer is not None", "engine_fault"),
        ("v1/worker/gpu/warmup.py", "self.cudagraph_manager is not None", "engine_fault"),
    ],
)
def test_a_check_without_words(path: str, check: str, cause: str) -> None:
    assert cause_of(traceback("AssertionError", (f"vllm/{path}", "__init__", f"assert {check}"))) == cause


def test_a_check_within_a_step_is_not_about_the_choice_of_a_backend() -> None:
    """vLLM 0.11.2, v1/attention/backends/mla/common.py build."""
    check = ("vllm/v1/attention/backends/mla/common.py", "build", "assert isinstance(metadata, Cudnn)")

    assert cause_of(traceback("AssertionError", check)) == "engine_fault"


def test_calls_of_a_grammar_come_before_a_title_about_answers() -> None:
    """vllm-project/vllm#4070; the exception is cut off."""
    calls = traceback(
        "",
        ("vllm/v1/structured_output/request.py", "_check_grammar_completion", "self._grammar.result()"),
    )
    title = "response_format json corrupts the answers\n\n"

    assert cause_of(title + calls) == "grammar_failed"
    assert cause_of(title) == "grammar_not_applied"


def test_a_merged_model_is_no_adapter() -> None:
    """modelscope/ms-swift#3643; an adapter's folder that is absent is another matter."""
    error = (
        "FileNotFoundError: [Errno 2] No such file or directory: '/out/checkpoint-6708{}/adapter_config.json'"
    )
    merged, absent = (read_log(error.format(suffix)).failure for suffix in ("-merged", ""))

    assert merged is not None
    assert absent is not None
    assert merged.cause is not None
    assert merged.cause is absent.cause
    assert merged.cause.name == "adapter_not_found"
    assert merged.cause.form_of(merged.message) is not None
    assert merged.cause.form_of(absent.message) is None


def test_adapter_weights_in_a_model_were_not_merged() -> None:
    """vllm-project/vllm#1625."""
    error = "KeyError: 'base_model.model.model.layers.0.self_attn.qkv_proj.lora_A.weight'"
    failure = read_log(
        traceback(error, ("vllm/model_executor/models/llama.py", "load_weights", "param = state_dict[name]"))
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "weights_do_not_fit_the_class"
    form = failure.cause.form_of(failure.message)
    assert form is not None
    assert "merge" in form.remedy.lower()


@pytest.mark.parametrize(
    "text",
    [
        # huggingface/trl#3408 and huggingface/trl#3925
        (
            "ERROR 05-16 09:57:41 [core.py:459] Invocation of collective_rpc method failed\n"
            "ERROR 05-16 09:57:41 [core.py:459] RuntimeError: NCCL error: unhandled cuda error\n"
        ),
        (
            "client.init_communicator()\ntorch.distributed.DistNetworkError: The client socket has timed out "
            "after 300000ms while trying to connect to (0.0.0.0, 51216).\n"
        ),
    ],
)
def test_a_trainer_and_its_engine_do_not_join(text: str) -> None:
    assert cause_of(text) == "trainer_not_joined"
    assert cause_of(text.splitlines()[-1]) in {"nccl", "ranks_not_connected"}


def test_half_precision_that_a_cpu_changes_is_no_flag_s_fault() -> None:
    """vllm-project/vllm#12794; vLLM 0.6.3, executor/cpu_executor.py."""
    error = (
        "ValueError: torch.bfloat16 is not supported for quantization method gptq. "
        "Supported dtypes: [torch.float16]"
    )
    cast = (
        "WARNING 02-06 00:09:44 cpu_executor.py:327] float16 is not supported on CPU, casting to bfloat16.\n"
    )

    assert cause_of(cast + error) == "quantization_not_on_the_cpu"
    assert cause_of(error) == "quantization_of_another_dtype"


def test_a_tokenizer_of_the_repository_s_own_needs_trust() -> None:
    """vllm-project/vllm#1445."""
    failure = read_log(
        "ValueError: Tokenizer class QWenTokenizer does not exist or is not currently imported."
    ).failure

    assert failure is not None
    assert failure.cause is not None
    form = failure.cause.form_of(failure.message)
    assert form is not None
    assert "--trust-remote-code" in form.remedy
