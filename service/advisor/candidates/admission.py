"""Admission: how many requests of a workload run at once, and what the next one waits for."""

from dataclasses import dataclass
from enum import StrEnum

from service.kv_cache.admission import GroupAdmission


class Waiting(StrEnum):
    """What the next request of a workload waits for."""

    NOTHING = "nothing"
    """All requests of the workload are admitted."""
    BLOCKS = "blocks"
    """The scheduler asks for more blocks than are free."""
    MAX_NUM_SEQS = "max_num_seqs"
    """As many requests run as the flag allows."""
    MAX_MODEL_LEN = "max_model_len"
    """The engine refuses it: its prompt leaves no room for an answer."""


@dataclass(frozen=True, slots=True)
class Admission:
    """How many requests of the workload are admitted at once, by the release's own scheduler."""

    prompt_tokens: int
    output_tokens: int
    groups: tuple[GroupAdmission, ...]
    blocks: int
    """Blocks of all groups that must be free before a request is admitted."""
    whole_prompt_blocks: int
    """Blocks that a scheduler without a cap on sliding windows would ask for."""
    sliding_window_blocks: int
    """Of ``blocks``, those of the sliding-window groups."""
    whole_sliding_window_blocks: int
    """Of ``whole_prompt_blocks``, those of the sliding-window groups."""
    peak_prefill_blocks: int
    """Most blocks that one request holds during prefill."""
    blocks_after_prefill: int
    """Blocks that it holds after prefill."""
    peak_decode_blocks: int
    """Most blocks that it holds while its answer is generated."""
    free_blocks: int
    """Blocks of an idle engine; one is the null block."""
    admitted_at_once: int
    """Requests admitted one after the other, each after the prefill of the one before."""
    admitted_by_whole_prompts: int
    """The same, if the scheduler asked for the whole prompt in sliding windows too."""
    completed_without_preemption: int
    """Requests that all finish without one of them being preempted."""
    unheld_blocks: int
    """Of ``free_blocks``, those that no request of the workload holds while each holds its most."""
    waits_for: Waiting
    explanation: str
    hazards: tuple[str, ...]
    """What goes wrong with such requests in this release."""
