"""The classes that the engine has of a model whose inner class a checkpoint names."""

import re
from collections.abc import Iterator
from typing import Final

from service.engines.model_classes import first_releases

INNER: Final = "Model"
"""End of the name of a class without an output layer: transformers, models/*/modeling_*.py."""
WITH_HEAD: Final = ("ForConditionalGeneration", "ForCausalLM")
"""Ends of the names of classes that generate text."""
_REFUSED: Final = re.compile(
    r"(?:[Mm]odel architectures \['|\b)(\w{3,80}Model)(?:'\] are not supported| has no vLLM implementation)",
    re.ASCII,
)
"""vLLM 0.7.0 to 0.33.0, model_executor/models/registry.py and model_loader/utils.py."""


def whole_classes(message: str) -> Iterator[str]:
    """Yield which class with a head the engine has, for a checkpoint that was stored without its head."""
    found = _REFUSED.search(message)
    if found is None:
        return
    stem = found[1].removesuffix(INNER)
    for name in (f"{stem}{end}" for end in WITH_HEAD):
        if (since := first_releases().get(name)) is not None:
            yield (
                f'--hf-overrides \'{{"architectures": ["{name}"]}}\': {found[1]} is the model without its '
                f"output layer, as a training tool stored it; vLLM has {name} (of the releases that were "
                f"read, from {since} on). If names of weights are refused then, store it again as {name}"
            )
            return
