"""How many blocks a waiting request must find free."""

from dataclasses import dataclass
from enum import StrEnum


class AdmissionGate(StrEnum):
    """How many sliding-window blocks a waiting request must find free."""

    CHUNK_BY_CHUNK = "chunk_by_chunk"
    WHOLE_PROMPT = "whole_prompt"
    STARTUP_BOUND = "startup_bound"
    WINDOW_PLUS_CHUNK = "window_plus_chunk"


class InFlightBatches(StrEnum):
    """Batches whose tokens a sliding window keeps in reserve."""

    ONE = "one"
    CONCURRENT = "concurrent"


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """How many blocks a waiting request must find free."""

    gate: AdmissionGate
    """How many sliding-window blocks a waiting request must find free."""
    bounds_steps: bool
    """Whether the bound on a window's blocks also holds for every later step, whose blocks beyond it are
    then taken without being counted.
    """
    first_chunk_lookahead: bool
    """Whether the first chunk of a prompt needs room for the tokens that the draft writes after it."""
    states_pile_up: bool
    """Whether states at the ends of blocks stay until the request ends, when a step reads several blocks
    and another is in flight.
    """
    in_flight_batches: InFlightBatches
    """Batches whose tokens a sliding window keeps in reserve."""
