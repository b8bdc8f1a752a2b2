"""Which model runner runs a model."""

import pytest
from packaging.version import Version

from service.engine_config.model_runner import runs_on_v2_model_runner
from service.engines.releases import rules_for
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
    found = runs_on_v2_model_runner(bundled(model), rules.batches, rules.speculation, None)
    assert found is second
