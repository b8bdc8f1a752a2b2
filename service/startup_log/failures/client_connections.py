"""Tells a client that does not reach a server from ranks, or an engine, that find nobody in the network."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import OF_ENGINE
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

OF_NETWORK: Final = frozenset({"ranks_not_connected", "no_network", "hub_unavailable"})
"""Causes whose words are those of any connection: refused, not resolved, without a way."""
_ASKS: Final = (
    *("APIConnectionError", "aiohttp.client_exceptions.", "/openai/_base_client.py"),
    *("exceeded with url: /v1/", "exceeded with url: /health", "exceeded with url: /generate"),
)
"""What shows that a client asked a server: openai, _exceptions.py; aiohttp; urllib3, exceptions.py
MaxRetryError, with the routes of vLLM 0.33.0, entrypoints/openai."""
_BENCHMARKS: Final = "/vllm/benchmarks/"
"""Its own client."""
_NOT_REACHED: Final = next(cause for cause in CAUSES if cause.name == "server_not_reached")


def as_client_connection(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a connection that a client did not get as that, in a text without a line of the engine."""
    if failure.cause is None or failure.cause.name not in OF_NETWORK:
        return failure
    if any(line.origin for line in lines) or any(_is_of_engine(each.path) for each in failure.frames):
        return failure
    asks = any(any(map(line.text.__contains__, _ASKS)) for line in lines)
    return replace(failure, cause=_NOT_REACHED) if asks else failure


def _is_of_engine(path: str) -> bool:
    return OF_ENGINE in f"/{path}" and _BENCHMARKS not in f"/{path}"
