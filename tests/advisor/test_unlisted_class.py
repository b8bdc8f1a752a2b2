"""A class for text that a release does not list is run by that of text and media, if there are both parts."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import resolved
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

WEIGHED = Path(__file__).parent.parent / "data" / "oracle" / "weighed.json.gz"


def config() -> Mapping[str, Any]:
    """Return a config with a vision part that vLLM 0.19.0 was asked about."""
    weighed = json.loads(gzip.decompress(WEIGHED.read_bytes()))
    (row,) = (row for row in weighed["rows"] if row["id"] == "20261124-0177")
    document: Mapping[str, Any] = weighed["configs"][row["config"]]["config"]
    return document


def class_run(document: Mapping[str, Any], release: str) -> str:
    architecture = read_architecture(read_document(document))
    gpu, rules = find_gpu("h100-sxm-80gb"), rules_for(Version(release))
    return resolved(architecture, ServeFlags(), rules, gpu)[0].class_name


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("0.19.0", "Qwen3_5ForConditionalGeneration"),
        ("0.24.0", "Qwen3_5ForConditionalGeneration"),
        ("0.27.0", "Qwen3_5ForCausalLM"),
    ],
)
def test_the_class_that_runs_is_the_releases(release: str, expected: str) -> None:
    """vLLM 0.19.0 and 0.24.0 built the model with its vision tower; 0.27.0 lists the class for text."""
    assert class_run(config(), release) == expected


def test_without_a_part_for_media_the_release_has_no_class() -> None:
    text = {key: value for key, value in config().items() if key != "vision_config"}

    # vLLM 0.26.0, asked: the class of text and images fails, since the config of text has no part on images.
    with pytest.raises(EngineRefusal, match="'Qwen3_5TextConfig' object has no attribute 'vision_config'"):
        class_run(text, "0.24.0")
    with pytest.raises(EngineRefusal, match="not supported for now"):
        class_run(config(), "0.16.0")
