"""WindowGroup: the layers that share a window, and the bytes that their tokens take on one rank."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.architecture.layers.attention import Attention, NoAttention
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.recurrence import Recurrence
from service.architecture.model import ModelArchitecture
from service.tensorrt_llm.llm_args import CACHE_BITS, TensorrtArgs
from service.units import ceil_div

ELEMENT = {"bfloat16": 2, "float16": 2, "float32": 4}
FP4_BLOCK = 16
"""Elements of 4 bits that share a scale of one byte."""


class UnmodelledBlocks(ValueError):
    """TensorRT-LLM has caches for the model that are not modelled here."""


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """The layers with one window, on one rank."""

    window: int | None
    """Tokens; ``None``: all."""
    buffers: tuple[int, ...]
    """Bytes of a token in each layer's keys and values, one after another; MLA has one vector."""
    layers: int

    @property
    def token_bytes(self) -> int:
        """Bytes of a token in all layers."""
        return sum(self.buffers)

    def page_bytes(self, tokens: int) -> tuple[int, ...]:
        """Return the bytes of a page in each pool: buffers of one size share a pool, the largest first."""
        sizes = sorted(set(self.buffers), reverse=True)
        return tuple(sum(size for size in self.buffers if size == each) * tokens for each in sizes)


def window_groups(model: ModelArchitecture, args: TensorrtArgs) -> tuple[WindowGroup, ...]:
    """Return the groups in the order in which layers first use their windows.

    Raises:
        UnmodelledBlocks: a layer has a cache of another kind.
    """
    rows: dict[int | None, list[tuple[int, ...]]] = {}
    for index, (own, buffers) in enumerate(_layers(model, args)):
        window = (
            args.max_attention_window[index % len(args.max_attention_window)]
            if args.max_attention_window
            else own
        )
        limit = args.max_seq_len or model.context.length
        if window is not None and limit is not None and window >= limit:
            window = None
        rows.setdefault(window, []).append(buffers)
    if not rows:
        raise UnmodelledBlocks(f"{model.class_name} has no layers with keys and values")
    return tuple(
        WindowGroup(window, tuple(size for each in found for size in each), len(found))
        for window, found in rows.items()
    )


def mixes_head_sizes(model: ModelArchitecture) -> bool:
    """Whether layers differ in the size of heads, which only the second manager can store as they are."""
    heads = {
        (layer.mixer.head_size, layer.mixer.head_size_v)
        for layer in model.layers
        if isinstance(layer.mixer, Attention)
    }
    return len(heads) > 1


def _layers(model: ModelArchitecture, args: TensorrtArgs) -> Iterator[tuple[int | None, tuple[int, ...]]]:
    for layer in model.layers:
        mixer = layer.mixer
        if isinstance(mixer, Attention):
            heads = ceil_div(mixer.num_kv_heads, args.tp_size)
            sizes = (heads * mixer.head_size, heads * mixer.head_size_v)
            if mixer.shares_cache_of is None:
                yield mixer.sliding_window, tuple(_stored(size, model, args) for size in sizes)
        elif isinstance(mixer, MultiHeadLatentAttention):
            yield mixer.sliding_window, (_stored(mixer.head_size, model, args),)
        elif isinstance(mixer, Recurrence) or not isinstance(mixer, NoAttention):
            raise UnmodelledBlocks(f"caches of {type(mixer).__name__} are not modelled for TensorRT-LLM")


def _stored(elements: int, model: ModelArchitecture, args: TensorrtArgs) -> int:
    if args.dtype == "auto":
        return elements * ELEMENT[model.dtype]
    bits = CACHE_BITS[args.dtype]
    scales = elements // FP4_BLOCK if args.dtype == "nvfp4" else 0
    return elements * bits // 8 + scales
