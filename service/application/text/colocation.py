"""Several engines on the same GPUs as text for people."""

from collections.abc import Iterator
from typing import Final

from service.advisor.candidates.verdict import Verdict
from service.advisor.colocation import Colocation, SharedEngine
from service.application.text.layout import WIDTH, wrapped
from service.application.text.words import change_words
from service.launch_command.launched_ranks import nodes_of_launch
from service.units import gib_amount, gib_text

VERDICTS: Final = {
    Verdict.STARTS: "starts",
    Verdict.UNCERTAIN: "may start",
    Verdict.REFUSED: "does not start",
}


def render_colocation(shared: Colocation, width: int = WIDTH) -> str:
    """Return every engine with what it finds, holds and does, in the order of their starts.

    Commands are not wrapped, so that they can be copied.
    """
    count = len(shared.engines)
    engines = f"{count} engines on {shared.gpu.name}, started one after another"
    lines = [f"1 engine on {shared.gpu.name}" if count == 1 else engines]
    for index, engine in enumerate(shared.engines, start=1):
        said = (each for line in _engine(index, engine) for each in wrapped(line, width))
        lines += ["", *said, f"   {engine.candidate.command}"]
    if shared.warnings:
        lines += ["", *(each for line in shared.warnings for each in wrapped(line, width))]
    return "\n".join(lines) + "\n"


def _engine(index: int, shared: SharedEngine) -> Iterator[str]:
    candidate, memory = shared.candidate, shared.candidate.memory
    yield f"{index}. {shared.request.model.id}: {VERDICTS[candidate.verdict]}"
    yield f"   {_where(shared)}, vLLM {shared.request.engine.version}"
    if shared.free is not None and memory is not None:
        beside = (
            f", beside engine {', '.join(str(each + 1) for each in shared.beside)}" if shared.beside else ""
        )
        free = f"{gib_amount(shared.free.low)} to {gib_amount(shared.free.high)}"
        yield f"   finds {free} GiB free{beside}; requests {gib_text(memory.requested.bytes)} GiB"
    if shared.held is not None:
        ready, most = gib_text(shared.held.bytes), gib_text(shared.held.high)
        yield f"   holds {ready} GiB when it is ready, up to {most} GiB under load"
    if candidate.kv_cache is not None:
        cache = candidate.kv_cache
        requests = f"{cache.max_concurrency:.2f} requests of the maximum length"
        yield f"   cache of {cache.tokens:,} tokens, {requests}"
    if candidate.error is not None:
        yield f"   {candidate.error.type}: {candidate.error.message}"
        yield from (f"   fix: {change_words(fix)}" for fix in candidate.error.fixes)
    yield from (f"   {doubt}" for doubt in candidate.doubts)


def _where(shared: SharedEngine) -> str:
    """Return the GPUs of an engine; by nodes, where the text starts it on several."""
    command = shared.request.command
    nodes = 1 if command is None else nodes_of_launch(command.launch)
    each, rest = divmod(len(shared.devices), nodes)
    if nodes == 1 or rest or (command is not None and command.launch.placement.devices):
        return f"GPU {', '.join(shared.devices)}"
    return f"{nodes} nodes of {each} GPUs"
