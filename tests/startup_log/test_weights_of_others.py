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
        ("v1/attention/backends/mla/common.py", "isinstance(prefill, Cudnn)", "no_attention_backend"),
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
