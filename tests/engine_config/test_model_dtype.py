"""The type that a model runs in, by what GPU and model bear."""

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.engine_config.model_dtype import resolve_model_dtype
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture


@pytest.mark.parametrize(
    ("model", "gpu", "dtype"),
    [
        ("Qwen/Qwen3-8B", "t4-16gb", "float16"),
        ("Qwen/Qwen3-8B", "a10g-24gb", "bfloat16"),
        # No type of 16 bits is left: not stable in one, and a GPU without the other.
        ("google/gemma-3-1b-it", "t4-16gb", "float32"),
        ("google/gemma-3-1b-it", "a10g-24gb", "bfloat16"),
    ],
)
def test_auto_takes_what_gpu_and_model_bear(model: str, gpu: str, dtype: str) -> None:
    rules = rules_for(Version("0.27.1")).dtypes

    assert resolve_model_dtype(bundled_architecture(model), "auto", find_gpu(gpu), rules) == dtype


def test_a_model_that_is_not_stable_in_float16_is_refused_in_the_engines_words() -> None:
    """As vLLM 0.27.1 answered for google/gemma-3-1b-it on an L40S."""
    with pytest.raises(EngineRefusal) as caught:
        resolve_model_dtype(
            bundled_architecture("google/gemma-3-1b-it"),
            "half",
            find_gpu("l40s-48gb"),
            rules_for(Version("0.27.1")).dtypes,
        )

    assert (caught.value.stage, caught.value.type) == (Stage.CONFIG, "ValidationError")
    assert caught.value.message == (
        "ModelConfig: The model type 'gemma3_text' does not support float16. Reason: Numerical instability. "
        "Please use bfloat16 or float32 instead."
    )


def test_bfloat16_is_refused_where_the_gpu_lacks_it() -> None:
    flags = ServeFlags(dtype="bfloat16")

    with pytest.raises(EngineRefusal, match=r"Your Tesla T4 GPU has compute capability 7\.5") as caught:
        dry_start(
            bundled_architecture("Qwen/Qwen3-8B"), flags, rules_for(Version("0.19.0")), find_gpu("t4-16gb")
        )

    assert caught.value.stage is Stage.DTYPE
