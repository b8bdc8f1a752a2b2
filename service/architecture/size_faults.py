"""Sizes that single config classes check against each other.

A size that a config does not write is not judged, but for the defaults that are named here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from service.architecture.config import Config
from service.architecture.text_part import text_type
from service.architecture.traits import SizeFault


def size_faults(config: Config, text: Config) -> tuple[SizeFault, ...]:
    """Return what the class of the text part finds wrong with its sizes."""
    found = CHECKED.get(text_type(config, text))
    return () if config.plain or found is None else tuple(found(text))


def _number(text: Config, name: str) -> int | None:
    value = text.fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _mamba2(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 4.57 to 5.19, Mamba2Config."""
    hidden, expand, heads, size = (
        _number(text, name) for name in ("hidden_size", "expand", "num_heads", "head_dim")
    )
    if hidden and expand and heads and size and hidden * expand != heads * size:
        yield SizeFault("mamba2_inner", (hidden * expand, heads * size))


def _states(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 4.57 to 5.19, BambaConfig and GraniteMoeHybridConfig: two is expand's default."""
    hidden, expand = _number(text, "hidden_size"), _number(text, "mamba_expand") or 2
    yield from _heads_of_states(text, hidden * expand if hidden else None)


def _falcon_h1(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 4.57 to 5.19, FalconH1Config."""
    if "mamba_d_ssm" not in text.fields or text.fields["mamba_d_ssm"] is None:
        yield from _states(text)
    else:
        yield from _heads_of_states(text, _number(text, "mamba_d_ssm"))


def _heads_of_states(text: Config, inner: int | None) -> Iterator[SizeFault]:
    heads, size = _number(text, "mamba_n_heads"), _number(text, "mamba_d_head")
    if inner is None or heads is None:
        return
    if inner % heads:
        yield SizeFault("states_uneven")
    if size is not None and size * heads != inner:
        yield SizeFault("states_unequal")


def _dbrx(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 4.57 to 5.19, DbrxConfig."""
    if text.fields.get("tie_word_embeddings") is True:
        yield SizeFault("dbrx_tied")


def _jetmoe(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 4.57 to 5.19, JetMoeConfig."""
    chosen, experts = _number(text, "num_experts_per_tok"), _number(text, "num_local_experts")
    if chosen and experts and chosen > experts:
        yield SizeFault("jetmoe_experts")


def _zamba(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 5.10 and 5.19, ZambaConfig."""
    hidden, expand, heads = (_number(text, name) for name in ("hidden_size", "mamba_expand", "n_mamba_heads"))
    if hidden and expand and heads and hidden * expand % heads:
        yield SizeFault("zamba_heads")


def _glm5_next(text: Config) -> Iterator[SizeFault]:
    """Source: transformers 5.19, Glm5NextTextConfig."""
    heads, keys = _number(text, "num_attention_heads"), _number(text, "num_key_value_heads")
    if heads and keys and heads != keys:
        yield SizeFault("glm5_next_heads", (heads, keys))


CHECKED: Final[Mapping[str, Callable[[Config], Iterator[SizeFault]]]] = {
    "bamba": _states,
    "dbrx": _dbrx,
    "falcon_h1": _falcon_h1,
    "glm5_next_text": _glm5_next,
    "granitemoehybrid": _states,
    "jetmoe": _jetmoe,
    "mamba2": _mamba2,
    "zamba": _zamba,
}
