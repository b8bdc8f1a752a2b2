"""EnginePlan: what an engine beside vLLM would do with a model on GPUs of one type.

Every engine counts its cache in its own way. `CacheFigures` has the figures that mean the same for all of
them, beside the engine's own count and what that count means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.memory.budget_types import Basis, Estimate
from service.units import gib_text


class EngineRefused(ValueError):
    """The engine does not start so, in its own words."""


@dataclass(frozen=True, slots=True)
class Unused:
    """Bytes of the cache, on all GPUs together, that the longest single request does not use."""

    why: str
    bytes: int


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """What a cache holds."""

    tokens: int
    """The engine's own count of its cache."""
    tokens_are: str
    """What that count means, such as ``cells of the context (n_ctx)``."""
    longest_request: int
    """Tokens of the longest single request, prompt and answer together; 0: none fits."""
    longest_prompt: int
    """Tokens of its prompt at most."""
    requests: int | None
    """Requests of the asked length that the cache holds at once; ``None`` where no length was asked."""
    cache_bytes: tuple[int, ...]
    """Bytes that the engine allocates for the cache on each GPU."""
    bytes_per_token: int
    """Bytes that one more token of a long request takes, on all GPUs together."""
    unused: tuple[Unused, ...] = ()
    log_lines: tuple[str, ...] = ()
    """What the engine logs of this cache, in order."""
    notes: tuple[str, ...] = ()
    """What else to know of it."""

    @property
    def wasted_bytes(self) -> int:
        """Bytes on all GPUs that the longest single request does not use."""
        return sum(each.bytes for each in self.unused)


@dataclass(frozen=True, slots=True)
class BudgetTerm:
    """One term of a GPU's memory: a name in the engine's own words, and its bytes."""

    name: str
    estimate: Estimate


def loading_refusal(terms: Sequence[BudgetTerm]) -> str | None:
    """Return what ends the loading of weights that are larger than the free memory; ``None`` where they fit.

    ``terms`` begin with the free memory and the weights; there are none where the cache's bytes were given.
    """
    if not terms:
        return None
    free, weights = terms[0].estimate.bytes, terms[1].estimate.bytes
    if weights < free:
        return None
    return (
        f"CUDA out of memory while the weights are loaded: {gib_text(weights)} GiB on each GPU, of which "
        f"{gib_text(free)} GiB are free"
    )


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What an engine would do on GPUs of one type."""

    engine: str
    version: str
    gpus: int
    command: str
    """The command that starts it."""
    budget: Estimate
    """Bytes of the GPU with the least room that the cache may take."""
    terms: tuple[BudgetTerm, ...]
    """The terms of that GPU's memory, in the order in which they are taken."""
    figures: CacheFigures | None
    """With the middle of the budget; ``None``: the engine does not start."""
    least: CacheFigures | None
    """With the low end of the budget; ``None``: the engine does not start with it."""
    most: CacheFigures | None
    """With the high end."""
    refusal: str | None = None
    """Why it does not start, in the engine's own words."""
    is_modelled: bool = True
    """Whether the engine's caches for the model are known here; ``notes`` say why not."""
    is_doubtful: bool = False
    """Whether something beside the budget may keep it from starting; ``notes`` say what."""
    basis: Basis = Basis.COMPUTED
    """How the sizes of the cache were obtained, whatever the budget's basis."""
    notes: tuple[str, ...] = ()


def not_modelled(engine: str, version: str, gpus: int, command: str, why: str) -> EnginePlan:
    """Return the plan of a model whose caches are not modelled for an engine."""
    nothing = Estimate(0, 0, 0, Basis.ASSUMED, "not modelled")
    return EnginePlan(
        engine, version, gpus, command, nothing, (), None, None, None, is_modelled=False, notes=(why,)
    )


LLAMA_CPP: Final = "llama.cpp"
SGLANG: Final = "sglang"
TENSORRT_LLM: Final = "tensorrt-llm"
VLLM: Final = "vllm"
ENGINES: Final = (VLLM, LLAMA_CPP, SGLANG, TENSORRT_LLM)
"""Names of the engines."""
