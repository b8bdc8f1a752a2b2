"""LlamaModel of a GGUF file, from the entries and tensors of its header.

Source: llama.cpp 0c1e57098, src/llama-model.cpp `load_hparams`, and src/models/*.cpp `load_arch_hparams`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.llama_cpp.device_layout import DeviceLayout
from service.llama_cpp.model_layers import (
    NO_HEADS,
    Heads,
    LlamaLayer,
    LlamaModel,
    LlamaState,
    NotConverted,
    UnmodelledLayers,
    rolls_back_states,
    splits_windows,
)
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import exact

Value: TypeAlias = int | float | bool | str | tuple[int | float | bool, ...]
PERIODS: Final[Mapping[str, int]] = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "olmo2": 4, "llama4": 4,
    "exaone-moe": 4,
}  # fmt: skip
"""Layers of which the last has no window, where a file has no pattern (`set_swa_pattern`)."""
STORED_FROM_START: Final[Mapping[str, int]] = {"gemma3n": 20}
"""Layers that store keys and values, where a file does not say (`n_layer_kv_from_start`)."""
INTERVALS: Final = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp"})
"""Architectures of which one layer in `full_attention_interval` attends, the others are recurrent."""
BOTH: Final = frozenset({"falcon-h1"})
"""Architectures whose layers all attend and all have a state."""
RECURRENT: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"})
COMPRESSED: Final = frozenset({"deepseek4"})
MOST_LAYERS: Final = 512
"""`LLAMA_MAX_LAYERS` (src/llama-hparams.h)."""
CHUNK: Final = 8192
"""Tokens of a chunk of Llama 4 (src/models/llama4.cpp)."""
_BLOCK: Final = re.compile(r"blk\.(\d{1,5})\.")


@dataclass(frozen=True, slots=True)
class GgufModel:
    """A model as its file says it."""

    model: LlamaModel
    layer_bytes: tuple[int, ...]
    """Bytes of the tensors of each layer."""
    output_bytes: int
    """Bytes of the output matrix, or of the embedding that stands for it, and of the last norm."""
    vocab_size: int
    hidden_size: int

    def weights(self, layout: DeviceLayout) -> tuple[Estimate, ...]:
        """Return the weights of each device."""

        def of(device: int) -> Estimate:
            size = sum(self.layer_bytes[index] for index in layout.layers_on(device))
            size += self.output_bytes if layout.output == device else 0
            return exact(size, Basis.COMPUTED, "the tensors of the file's header")

        return tuple(of(device) for device in range(layout.devices))


def gguf_model(
    values: Mapping[str, Value], tensor_bytes: Mapping[str, int], vocabulary: int = 0
) -> GgufModel:
    """Return the model of a file, whose list of tokens has a length.

    Raises:
        NotConverted: the header lacks an entry.
        UnmodelledLayers: its caches are not modelled.
    """
    return _Header(values, tensor_bytes, vocabulary).model()


@dataclass(frozen=True, slots=True)
class _Header:
    values: Mapping[str, Value]
    tensor_bytes: Mapping[str, int]
    vocabulary: int

    @property
    def name(self) -> str:
        """llama.cpp's name of the architecture."""
        return str(self.values.get("general.architecture", ""))

    def number(self, key: str, default: int | None = None) -> int:
        """Return an entry of the architecture that is a number."""
        value = self.values.get(f"{self.name}.{key}", default)
        if value is None:
            raise NotConverted(f"key not found in model: {self.name}.{key}")
        return self._checked(key, value)

    def numbers(self, key: str, layers: int, default: int = 0) -> tuple[int, ...]:
        """Return an entry with one number for each layer, or one for all."""
        value = self.values.get(f"{self.name}.{key}", default)
        if isinstance(value, tuple):
            if len(value) < layers:
                raise NotConverted(f"key {self.name}.{key} has wrong array length")
            return tuple(self._checked(key, each) for each in value[:layers])
        return (self._checked(key, value),) * layers

    def _checked(self, key: str, value: Value) -> int:
        """Return a number that `uint32_t` holds."""
        if not isinstance(value, int) or not 0 <= value < 1 << 32:
            raise NotConverted(f"key {self.name}.{key} has wrong type or is out of range")
        return int(value)

    def model(self) -> GgufModel:
        """Return the model."""
        if self.name in COMPRESSED or self.name.startswith("rwkv") or self.name == "arwkv7":
            raise UnmodelledLayers(f"caches of {self.name} are not modelled for GGUF files")
        count = self.number("block_count") - self.number("nextn_predict_layers", 0)
        if not 0 < count <= MOST_LAYERS:
            raise NotConverted(f"{self.name}.block_count is not between 1 and {MOST_LAYERS}")
        layers = self._layers(count)
        windowed = splits_windows(self.name) and any(layer.is_window for layer in layers)
        model = LlamaModel(
            self.name,
            layers,
            self.number("context_length"),
            window=self._window() if windowed else 0,
            splits_windows=windowed,
            is_mla=f"{self.name}.attention.key_length_mla" in self.values,
            rolls_back_states=rolls_back_states(self.name),
            has_experts=self.number("expert_count", 0) > 0,
            widest_values=max(layer.values.elements for layer in layers),
        )
        sizes = [0] * count
        for name, size in self.tensor_bytes.items():
            found = _BLOCK.match(name)
            if found is not None and int(found[1]) < count:
                sizes[int(found[1])] += size
        output = self.tensor_bytes.get("output.weight", self.tensor_bytes.get("token_embd.weight", 0))
        vocabulary = self.number("vocab_size", self.vocabulary)
        return GgufModel(model, tuple(sizes), output, vocabulary, self.number("embedding_length"))

    def _window(self) -> int:
        return CHUNK if self.name == "llama4" else self.number("attention.sliding_window", 0)

    def _windows(self, count: int) -> tuple[bool, ...]:
        """Return which layers have a window."""
        if not splits_windows(self.name) or not self._window():
            return (False,) * count
        key = f"{self.name}.attention.sliding_window_pattern"
        pattern = self.values.get(key)
        if isinstance(pattern, tuple):
            return tuple(map(bool, self.numbers("attention.sliding_window_pattern", count)))
        period = int(pattern) if isinstance(pattern, int) else PERIODS.get(self.name, 0)
        return tuple(period == 0 or index % period < period - 1 for index in range(count))

    def _layers(self, count: int) -> tuple[LlamaLayer, ...]:
        heads = self.numbers("attention.head_count", count)
        kv_heads = self.numbers("attention.head_count_kv", count, heads[0])
        width = self.number("embedding_length")
        size = width // heads[0] if heads[0] else 0
        keys, values = self.number("attention.key_length", size), self.number("attention.value_length", size)
        stored = STORED_FROM_START.get(self.name, count - self.number("attention.shared_kv_layers", 0))
        found = []
        for index, window in enumerate(self._windows(count)):
            narrow = window and f"{self.name}.attention.key_length_swa" in self.values
            key = self.number("attention.key_length_swa", keys) if narrow else keys
            value = self.number("attention.value_length_swa", values) if narrow else values
            found.append(
                self._layer(index, Heads(kv_heads[index], key), Heads(kv_heads[index], value), window, stored)
            )
        return tuple(found)

    def _layer(self, index: int, keys: Heads, values: Heads, window: bool, stored: int) -> LlamaLayer:
        state = self._state() if self._is_recurrent(index, keys) else None
        if state is not None and self.name not in BOTH:
            return LlamaLayer(state=state)
        if index >= stored:
            return LlamaLayer(values=values, is_window=window)
        if not keys.count:
            return LlamaLayer(NO_HEADS, NO_HEADS)
        indexer = self.number("attention.indexer.key_length", 0)
        return LlamaLayer(keys, values, window, state, indexer_keys=indexer)

    def _is_recurrent(self, index: int, keys: Heads) -> bool:
        if self.name in RECURRENT or self.name in BOTH:
            return True
        if self.name in INTERVALS:
            return (index + 1) % max(1, self.number("full_attention_interval", 4)) != 0
        stateful = any(f"{self.name}.{key}" in self.values for key in ("ssm.inner_size", "shortconv.l_cache"))
        return stateful and not keys.count

    def _state(self) -> LlamaState:
        kernel = self.number("shortconv.l_cache", 0)
        if kernel:
            return LlamaState((kernel - 1) * self.number("embedding_length"), 0)
        inner, size = self.number("ssm.inner_size"), self.number("ssm.state_size")
        channels = inner + 2 * self.number("ssm.group_count", 0) * size
        return LlamaState((self.number("ssm.conv_kernel") - 1) * channels, size * inner)
