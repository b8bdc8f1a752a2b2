"""ManagerRules: what the cache managers of a release of TensorRT-LLM do, from dated data."""

from dataclasses import dataclass
from typing import Final

from packaging.version import Version

from service.engine_plans.engine_releases import EngineReleases


@dataclass(frozen=True, slots=True)
class ManagerRules:
    """What a release does."""

    newest: str
    tokens_per_block: int
    second_manager: bool
    releases_front_blocks: bool


RELEASES: Final = EngineReleases("TensorRT-LLM", "service.tensorrt_llm", ManagerRules, Version("0.5.0"))
