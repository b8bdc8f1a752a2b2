"""The formula of bytes per token that calculators use: the baseline to beat."""

from tests.accuracy.startups_told import Startup


def naive_weights(startup: Startup) -> float | None:
    """Return parameters x bits, split evenly over the ranks."""
    naive = startup.known.naive
    bits = 8 if startup.flags.quantization == "fp8" else naive.weight_bits
    return None if naive.parameters is None else naive.parameters * bits / 8 / _ranks(startup)


def naive_available(startup: Startup, requested: int) -> float | None:
    """Return what weights alone leave of the requested memory."""
    weights = naive_weights(startup)
    return None if weights is None else requested - weights


def naive_tokens(startup: Startup, available: float) -> float:
    """Return the tokens whose keys and values fit, as if every layer kept them all."""
    naive = startup.known.naive
    width = 1 if startup.flags.kv_cache_dtype in {"fp8", "fp8_e4m3", "fp8_e5m2"} else 2
    return available / (2 * naive.layers * naive.kv_heads * naive.head_size * width / _ranks(startup))


def _ranks(startup: Startup) -> int:
    return (startup.flags.tensor_parallel_size or 1) * startup.flags.pipeline_parallel_size
