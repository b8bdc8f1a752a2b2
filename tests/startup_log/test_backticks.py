"""Messages whose backticks were left out, or added, where somebody wrote them down."""

import pytest

from service.startup_log.log import read_log

MESSAGES = [
    # transformers 4.42, models/llama/configuration_llama.py _rope_scaling_validation.
    (
        "ValueError: `rope_scaling` must be a dictionary with two fields, `type` and `factor`, got {'a': 1}",
        "model_config_not_read",
    ),
    # vLLM 0.24.0, transformers_utils/configs/hunyuan_vl.py.
    (
        "ValueError: `rope_scaling`'s factor field must be a float > 1.0, got 1",
        "model_config_not_read",
    ),
    # transformers 4.57, modeling_rope_utils.py _check_received_keys: the words of a library.
    (
        "KeyError: \"Missing required keys in `rope_scaling` for 'rope_type'='yarn': {'factor'}\"",
        "model_config_not_read",
    ),
    # transformers, models/auto/configuration_auto.py AutoConfig.from_pretrained, where it is cut off before.
    ("ValueError: Should have a `model_type` key in its config.json", "model_not_found"),
]


@pytest.mark.parametrize(("message", "cause"), MESSAGES)
@pytest.mark.parametrize("form", ["{}", "{plain}", "- **{marked}**", "It stops with {plain} on an L4."])
def test_a_cause_is_known_with_and_without_backticks(message: str, cause: str, form: str) -> None:
    plain = message.replace("`", "")
    marked = message.replace(" must ", " `must` ").replace(" keys ", " `keys` ")
    failure = read_log(form.format(message, plain=plain, marked=marked)).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


@pytest.mark.parametrize(
    "line",
    [
        "I upgraded with pip install -U vllm and then it served",
        "Using TransformersForCausalLM as a fallback",
        "The model Qwen3 that I serve is `fine`",
    ],
)
def test_a_backtick_that_sets_a_message_apart_is_not_left_out(line: str) -> None:
    """Their sentences are messages only by the backtick: "with `pip install", "`TransformersForCausalLM`"."""
    assert read_log(line).failure is None
