"""The dated constants: complete for every release, and each with its source."""

import pytest
from packaging.version import Version

from service.engines.releases import RELEASES
from service.memory.activation import runs_on_second_runner
from service.memory.constants import Range, constants_at
from service.memory.layout import layout_at
from tests.memory.recorded import bundled


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_modelled_release_has_its_constants_with_a_source(release: Version) -> None:
    constants = constants_at(release)

    assert layout_at(release).mxfp4_rounding
    assert all(constants.sources.values())


def test_an_older_release_is_not_dated() -> None:
    with pytest.raises(LookupError):
        constants_at(Version("0.9.0"))


def test_a_range_out_of_order_is_refused() -> None:
    with pytest.raises(ValueError, match="not between"):
        Range(1, 2, 3)


@pytest.mark.parametrize(
    ("release", "model", "second"),
    [
        ("0.20.2", "Qwen/Qwen3-8B", False),
        ("0.22.1", "Qwen/Qwen3-8B", True),
        ("0.22.1", "meta-llama/Llama-3.1-8B", False),
        ("0.24.0", "meta-llama/Llama-3.1-8B", True),
        ("0.24.0", "google/gemma-3-27b-it", False),
        ("0.26.0", "google/gemma-3-27b-it", True),
        ("0.26.0", "Qwen/Qwen3-30B-A3B-Instruct-2507", False),
        ("0.28.0", "Qwen/Qwen3.5-27B", False),
        ("0.32.0", "Qwen/Qwen3.5-27B", True),
    ],
)
def test_the_second_runner_takes_over_as_the_releases_say(release: str, model: str, second: bool) -> None:
    """vLLM's VllmConfig.use_v2_model_runner, release by release."""
    assert runs_on_second_runner(bundled(model), constants_at(Version(release))) is second
