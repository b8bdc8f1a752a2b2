"""What messages of Python's own are about: the class or the function that they name, and no file."""

import pytest

from service.startup_log.catalogue.origins import owner_of
from service.startup_log.errors.known_classes import is_model_type, places_named
from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("message", "place"),
    [
        # The files are those of the sources: vLLM 0.33.0, transformers 5.5.0.
        ("'EagleProposer' object has no attribute 'positions'", "vllm/v1/spec_decode/eagle.py"),
        ("'VllmConfig' object has no attribute 'a'", "vllm/config/vllm.py"),
        ("type object 'CudaPlatform' has no attribute 'a'", "vllm/platforms/cuda.py"),
        ("Can't instantiate abstract class CPUWorker with abstract method a", "vllm/v1/worker/cpu_worker.py"),
        ("module 'vllm.envs' has no attribute 'a'", "vllm/envs/"),
        ("AsyncLLM.__init__() got an unexpected keyword argument 'a'", "vllm/v1/engine/async_llm.py"),
        (
            "get_attn_backend() missing 1 required positional argument: 'a'",
            "vllm/v1/attention/selector.py",
        ),
    ],
)
def test_a_class_or_a_function_is_known_by_its_name(message: str, place: str) -> None:
    assert place in places_named(message)


@pytest.mark.parametrize(
    "message", ["", "'NoneType' object has no attribute 'a'", "'a'", "forward() takes 1", "no such thing"]
)
def test_what_is_the_engine_s_and_python_s_alike_names_no_place(message: str) -> None:
    assert places_named(message) == ()
    assert owner_of("AttributeError", message) is None


def test_a_model_type_is_known() -> None:
    """Keys of transformers' CONFIG_MAPPING_NAMES, and a field of a config."""
    assert is_model_type("'granitemoehybrid'")
    assert not is_model_type("'hidden_act'")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        # vllm-project/vllm#34607: a fault of EAGLE-3 in 0.15.1.
        (
            "AttributeError: 'EagleProposer' object has no attribute 'positions'",
            "speculation_not_supported",
        ),
        # A plugin that reads a field which its release of the engine does not have.
        ("AttributeError: 'VllmConfig' object has no attribute 'abc'", "call_not_known"),
        (
            "TypeError: LlamaForCausalLM.__init__() got an unexpected keyword argument 'abc'",
            "model_class_failed",
        ),
        ("AttributeError: 'DynamicCache' object has no attribute 'abc'", "build_does_not_match"),
        ("AttributeError: 'GPUModelRunner' object has no attribute 'abc'", "engine_fault"),
        ("AttributeError: 'LlamaConfig' object has no attribute 'abc'", "config_without_field"),
        ("KeyError: 'granitemoehybrid'", "unknown_architecture"),
        ("KeyError: 'tower.blocks.3.mlp.abc'", "weights_do_not_fit_the_class"),
    ],
)
def test_an_exception_of_python_has_the_cause_of_its_owner(line: str, cause: str) -> None:
    failure = read_log(line).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


def test_an_attribute_of_none_has_no_cause() -> None:
    failure = read_log("AttributeError: 'NoneType' object has no attribute 'abc'").failure

    assert failure is not None
    assert failure.cause is None


def test_python_s_own_words_count_in_a_title_too_if_the_engine_has_the_class() -> None:
    """Titles as in vllm-project/vllm#34607; another program's class says nothing."""
    known = read_log("# [Bug]: 'EagleProposer' object has no attribute 'positions'").failure
    unknown = read_log("# [Bug]: 'SomeoneElse' object has no attribute 'positions'").failure

    assert known is not None
    assert known.cause is not None
    assert known.cause.name == "speculation_not_supported"
    assert unknown is not None
    assert (unknown.type, unknown.cause) == ("AttributeError", None)


def test_the_name_of_a_layer_s_cache_is_no_weight() -> None:
    """vllm-project/vllm-ascend#8440: the caches of the layers are bound by these names, after the weights."""
    failure = read_log("KeyError: 'model.layers.0.self_attn.attn'").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "engine_fault"
