"""Which quantized encoders releases build: what vLLM answered to models with encoders, drawn at random.

`tower_layouts.json.gz` holds published configs, most with a quantization written into them, and whether vLLM
0.20.2 to 0.33.0 built the model on the meta device or what it raised. AWQ and GPTQ are left out, for the
checkpoint's tensors say there what is quantized, and so are refusals for want of the package humming-kernels.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import GPU_OF_CAPABILITY

FILE: Final = Path(__file__).parent.parent / "data" / "oracle" / "tower_layouts.json.gz"
ROWS: Final = json.loads(gzip.decompress(FILE.read_bytes()))
HUMMING: Final = Version("0.23.0")
"""Releases since then were asked without kernels of packed integers that they have: later checks refuse."""
NOT_FORESEEN: Final[Mapping[str, str]] = {
    "Qwen3_5MoeForConditionalGeneration": "humming, which the release was asked without, takes the layer",
}
"""Classes of which a start is refused that we plan, and why."""


def refusal_of(row: Mapping[str, Any]) -> str | None:
    """Return what we say that the release raises."""
    flags = ServeFlags(
        tensor_parallel_size=row["tp"],
        pipeline_parallel_size=row["pp"],
        enable_expert_parallel=row["ep"],
        max_model_len=1024,
    )
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    architecture = read_architecture(read_document(row["config"]))
    try:
        dry_start(architecture, flags, rules_for(Version(row["release"])), gpu)
    except EngineRefusal as refusal:
        return refusal.message
    return None


def test_what_a_release_builds_is_not_refused() -> None:
    built = [row for row in ROWS if "error" not in row]
    assert len(built) > len(ROWS) / 2
    assert [refusal_of(row) for row in built if refusal_of(row) is not None] == []


def test_encoders_that_a_release_refuses_are_refused_in_its_words() -> None:
    missed = set()
    for row in (row for row in ROWS if "error" in row):
        words = refusal_of(row)
        if words is None:
            missed.add(row["config"]["architectures"][0])
        elif Version(row["release"]) < HUMMING or "WNA16" not in row["message"]:
            assert row["message"].startswith(words[:40])
    assert missed == NOT_FORESEEN.keys()
