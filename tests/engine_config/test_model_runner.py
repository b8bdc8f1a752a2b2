"""Which model runner runs a model."""

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.engine_config.model_runner import runs_on_v2_model_runner
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.memory.recorded import bundled


@pytest.mark.parametrize(
    ("release", "model", "second"),
    [
        ("0.20.2", "Qwen/Qwen3-8B", False),
        ("0.22.1", "Qwen/Qwen3-8B", True),
        ("0.22.1", "meta-llama/Llama-3.1-8B", False),
        ("0.24.0", "meta-llama/Llama-3.1-8B", True),
        ("0.24.0", "google/gemma-3-27b-it", False),
        ("0.25.0", "google/gemma-3-27b-it", True),
        ("0.26.0", "Qwen/Qwen3-30B-A3B-Instruct-2507", False),
        ("0.28.0", "Qwen/Qwen3.5-27B", False),
        ("0.29.0", "Qwen/Qwen3.5-27B", True),
    ],
)
def test_the_second_runner_takes_over_as_the_releases_say(release: str, model: str, second: bool) -> None:
    """vLLM's VllmConfig.use_v2_model_runner, release by release."""
    rules = rules_for(Version(release))
    found = runs_on_v2_model_runner(bundled(model), rules, None)
    assert found is second


@pytest.mark.parametrize(
    ("release", "model", "flags", "words"),
    [
        (
            "0.20.2",
            "Qwen/Qwen3.5-27B",
            {},
            "VLLM_USE_V2_MODEL_RUNNER does not yet support: hybrid/mamba models",
        ),
        (
            "0.20.2",
            "Qwen/Qwen3-8B",
            {"enable_dbo": True},
            "VLLM_USE_V2_MODEL_RUNNER does not yet support: dual batch overlap",
        ),
        (
            "0.24.0",
            "Qwen/Qwen3.5-27B",
            {"mamba_cache_mode": "align", "enable_prefix_caching": True},
            "Model Runner V2 does not yet support: hybrid/mamba models with align cache mode",
        ),
        ("0.25.0", "Qwen/Qwen3.5-27B", {"mamba_cache_mode": "align", "enable_prefix_caching": True}, None),
        ("0.27.1", "Qwen/Qwen3.5-27B", {"mamba_cache_mode": "align", "enable_prefix_caching": True}, None),
        ("0.20.2", "Qwen/Qwen3-8B", {}, None),
    ],
)
def test_what_the_second_runner_lacks_is_refused_where_it_is_asked_for(
    release: str, model: str, flags: dict[str, object], words: str | None
) -> None:
    """VllmConfig._validate_v2_model_runner of vLLM 0.20.0, 0.24.0 and 0.25.0."""
    asked = ServeFlags(environment=(("VLLM_USE_V2_MODEL_RUNNER", "1"),), **flags)  # type: ignore[arg-type]
    given = (bundled(model), asked, rules_for(find_release(release)), find_gpu("h200-sxm-141gb"))
    if words is None:
        assert dry_start(*given).engine_config.v2_model_runner
    else:
        with pytest.raises(EngineRefusal) as refusal:
            dry_start(*given)
        assert refusal.value.message.endswith(words)


def test_a_runner_that_checks_nothing_is_not_modelled() -> None:
    asked = ServeFlags(environment=(("VLLM_USE_V2_MODEL_RUNNER", "1"),))
    given = (bundled("Qwen/Qwen3-8B"), asked)
    gpu = find_gpu("h200-sxm-141gb")

    assert any("V2" in words for words in dry_start(*given, rules_for(find_release("0.19.0")), gpu).unbuilt)
    assert dry_start(*given, rules_for(find_release("0.20.2")), gpu).unbuilt == ()
