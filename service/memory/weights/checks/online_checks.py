"""What a release refuses while it builds weights that it quantizes as they load: sizes that do not divide."""

from functools import lru_cache
from itertools import chain
from typing import Final

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.engines.refusal import EngineRefusal, Stage
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_modules_of, module_bytes_of, tower_modules_of
from service.memory.weights.modules import Linear
from service.memory.weights.schemes.online_quantization import ONLINE, quantized_online

BLOCKS: Final = frozenset({"mxfp4", "mxfp8"})
"""Methods that store a scale for each block of inputs."""
INPUTS: Final = "{method} requires input_size_per_partition ({size}) to be divisible by {block}."
"""vLLM 0.19.0 to 0.33.0, online/mxfp8.py and, since 0.28.0, online/mxfp4.py create_weights."""


def check_online_sizes(
    architecture: ModelArchitecture, method: str | None, deployment: Parallelism, release: Version
) -> None:
    """Refuse linear layers whose inputs end inside a block, as those of many encoders do.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if method not in BLOCKS or architecture.quantization is not None:
        return
    refusal = _refusal(architecture, method, deployment, release)
    if refusal is not None:
        raise refusal


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _refusal(
    architecture: ModelArchitecture, method: str, deployment: Parallelism, release: Version
) -> EngineRefusal | None:
    stored, block = quantized_online(architecture, method), ONLINE[method].group_size
    if block is None:
        raise ValueError(f"{method} has no blocks")
    sizes = module_bytes_of(stored, deployment, release)
    modules = chain(
        chain.from_iterable(layer_modules_of(stored, deployment, release)),
        tower_modules_of(stored, deployment, release),
    )
    for module in modules:
        if isinstance(module, Linear) and module.inputs % block and sizes.scheme_of(module) is not None:
            words = INPUTS.format(method=method.upper(), size=module.inputs, block=block)
            return EngineRefusal(Stage.MODEL, words, type="ValueError", detail=f"The layer is {module.name}.")
    return None
