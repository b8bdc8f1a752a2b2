"""Which layers of a model see a window of tokens alone."""

from collections.abc import Callable
from typing import Final

from service.architecture.config import Config
from service.architecture.readers.family import layer_types, num_layers

SLIDING: Final = "sliding_attention"


def model_window(text: Config) -> int | None:
    """Return the window that the engine applies to every layer whose class does not choose itself.

    ``0`` and ``null`` mean none, and so does a mixture of layer types.
    Source: vLLM 0.32.0, ModelConfig.__post_init__ and EngineArgs.create_engine_config.
    """
    types = layer_types(text)
    if types and any(kind != SLIDING for kind in types):
        return None
    return text.integer("sliding_window", default=0, minimum=0) or None


def every_layer(text: Config) -> tuple[int | None, ...]:
    """Return the model's own window for each layer."""
    return (model_window(text),) * num_layers(text)


def no_layer(text: Config) -> tuple[int | None, ...]:
    """Return no window for each layer."""
    return (None,) * num_layers(text)


def by_type(text: Config) -> tuple[int | None, ...]:
    """Return a window for the layers that ``layer_types`` calls sliding; without types, as for all layers."""
    types = layer_types(text)
    if not types:
        return every_layer(text)
    window = text.integer("sliding_window", default=0, minimum=0) or None
    return tuple(window if kind == SLIDING else None for kind in types[: num_layers(text)])


def by_pattern(
    key: str, default: int, *, full_first: bool = False
) -> Callable[[Config], tuple[int | None, ...]]:
    """Return a rule: told types count, else every n-th layer is full, by its last or its first one."""

    def windows(text: Config) -> tuple[int | None, ...]:
        count = num_layers(text)
        every = text.count(key, default=default) if isinstance(text.fields.get(key), int) else default
        types = layer_types(text) or tuple(
            SLIDING if (index + (not full_first)) % every else "full_attention" for index in range(count)
        )
        window = text.integer("sliding_window", default=0, minimum=0) or None
        return tuple(window if kind == SLIDING else None for kind in types[:count])

    return windows
