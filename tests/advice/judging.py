"""Every published command planned as it is written, and held against what was published about it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.application.errors import (
    GpuNotModelled,
    InputFault,
    InvalidRequest,
    UnknownFlag,
)
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.engines.refusal import Stage
from service.engines.releases import UnavailableFlag, UnknownRelease
from service.gpus.catalog import UnknownGpu
from service.hub.errors import HubError
from service.units import gib_text
from tests.advice.asked import Service
from tests.advice.commands import Command, read_command
from tests.advice.rows import Row

CAUSE_LENGTH: Final = 100
"""Characters of the engine's words that tell causes apart."""
NOT_MODELLED_FAULTS: Final = (UnknownArchitecture, UnknownRelease, UnknownGpu, GpuNotModelled)
"""What the service says that it knows nothing about."""
FAULTS: Final = (InputFault, InvalidRequest, UnknownFlag, InvalidConfig, HubError, *NOT_MODELLED_FAULTS)
"""What the service answers with a problem."""
UNKNOWN_CHOICES: Final = ("has no --moe-backend", "Whether the kernel", "The V2 model runner of")
"""What the service says of a value that it plans with and does not know."""
FEW_WORDS: Final = 4
"""Fewer published words than this are not compared."""
_OUTCOME_WORDS: Final = frozenset({"failed", "published", "crash"})


class Judgement(StrEnum):
    """What became of one published command."""

    AGREE = "agree"
    """Published as working, and it starts."""
    FALSE_REFUSAL = "FALSE REFUSAL"
    FALSE_START = "FALSE START"
    FORESEEN = "foreseen"
    """Published as failing, and it is refused."""
    RECIPE_WRONG = "recipe wrong, proven"
    UNCERTAIN = "uncertain"
    NOT_MODELLED = "not modelled"
    NO_CONFIG = "no config"


@dataclass(frozen=True, slots=True)
class Judged:
    """One command with what we said."""

    row: Row
    command: Command
    judgement: Judgement
    cause: str = ""
    """Why, short enough to group by."""
    words: str = ""
    """The engine's words in full, with the numbers behind them."""
    draft_left_out: bool = False
    """Whether it was planned without its draft, whose config is not at hand."""
    config: str | None = None
    """How the model's config was come by."""
    planned: bool = False
    """Whether it was planned as it is written: no value of it had to be changed first."""
    doubts: tuple[str, ...] = ()
    """Why a start that is planned without them may fail: flags that are not modelled."""


def failed(row: Row) -> bool:
    """Whether the row was published as a failure."""
    return str(row["published_outcome"]).startswith("failed")


def body_of(row: Row, command: Command) -> dict[str, Any]:
    """Return the question whether this very command starts: nothing is left for the service to choose."""
    specified = {
        "tensor_parallel_size": row.get("tp") or 1,
        "pipeline_parallel_size": row.get("pp") or 1,
        "data_parallel_size": row.get("dp") or 1,
        "decode_context_parallel_size": row.get("dcp") or 1,
        "kv_cache_dtype": "auto",
        "enable_expert_parallel": bool(row.get("ep")),
    }
    return {
        "model": row["model"],
        "gpus": [row["gpu"]],
        "engine": {"version": row["version"]},
        "serve": {**specified, **command.serve},
    }


def judge(row: Row, service: Service, wrong: Mapping[str, str]) -> Judged:
    """Plan one command; ``wrong`` tells of which recipes it is proven that they cannot work, and why."""
    command = read_command(row["flags"], row.get("env"), row["version"])
    config = service.configs.how(row["model"])
    if config is None:
        return Judged(row, command, Judgement.NO_CONFIG, "no config at hand")
    body, left_out = _with_draft_at_hand(body_of(row, command), service)
    found_fault: Exception | None = None
    doubts: tuple[str, ...] = ()
    try:
        plan = service.plan(body).plans[0]
    except FAULTS as fault:
        found_fault = fault
        found = _of_fault(row, fault)
    else:
        candidate = plan.candidates[0]
        doubts = (
            () if candidate.verdict is Verdict.REFUSED else (*command.doubts(plan), *_of_flags(candidate))
        )
        found = _of_candidate(row, command, candidate, doubts)
    judgement, cause, words = found
    if judgement is Judgement.FALSE_REFUSAL and row["id"] in wrong:
        judgement, cause = Judgement.RECIPE_WRONG, wrong[row["id"]]
    planned = found_fault is None and not command.unknown and not command.faults
    return Judged(row, command, judgement, cause, words, left_out, config, planned, doubts)


def _of_flags(candidate: Candidate) -> Iterator[str]:
    """Yield the doubts of a start whose flags are planned and name what is not modelled."""
    yield from (doubt for doubt in candidate.doubts if any(words in doubt for words in UNKNOWN_CHOICES))


def _with_draft_at_hand(body: dict[str, Any], service: Service) -> tuple[dict[str, Any], bool]:
    draft = body["serve"].get("speculative_config", {}).get("model")
    if draft is None or service.configs.how(draft) is not None:
        return body, False
    kept = {name: value for name, value in body["serve"].items() if name != "speculative_config"}
    return {**body, "serve": kept}, True


def _of_fault(row: Row, fault: Exception) -> tuple[Judgement, str, str]:
    cause = fault.__cause__ if isinstance(fault, InputFault) and fault.__cause__ else fault
    words = f"{type(cause).__name__}: {cause}"
    if isinstance(cause, NOT_MODELLED_FAULTS):
        return Judgement.NOT_MODELLED, type(cause).__name__, words
    if isinstance(cause, UnavailableFlag) and "VLLM_ATTENTION_BACKEND" in (row.get("env") or {}):
        return Judgement.NOT_MODELLED, "VLLM_ATTENTION_BACKEND of this release", words
    if failed(row):
        return Judgement.FORESEEN, f"fault {words}"[:CAUSE_LENGTH] + f" ({_compared(row, words)})", words
    return Judgement.FALSE_REFUSAL, f"fault {words}"[:CAUSE_LENGTH], words


def _of_candidate(
    row: Row, command: Command, candidate: Candidate, doubts: tuple[str, ...]
) -> tuple[Judgement, str, str]:
    if candidate.verdict is Verdict.STARTS:
        return _of_start(row, doubts)
    error = candidate.error
    if candidate.verdict is Verdict.UNCERTAIN:
        words = "; ".join((*((f"{error.type}: {error.message}",) if error else ()), *candidate.doubts))
        if candidate.memory is None:
            return Judgement.NOT_MODELLED, words[:CAUSE_LENGTH], words
        return Judgement.UNCERTAIN, _reason(candidate, words), words
    assert error is not None
    words = f"{error.stage.value} {error.type}: {error.message} {error.detail} {_budget(candidate)}".strip()
    cause = f"{error.stage.value} {error.type}: {error.message[:CAUSE_LENGTH]}"
    if failed(row):
        return Judgement.FORESEEN, f"{cause} ({_compared(row, words)})", words
    if command.saving and error.stage is Stage.MEMORY:
        return Judgement.NOT_MODELLED, f"refused without {', '.join(command.saving)}", words
    return Judgement.FALSE_REFUSAL, cause, words


def _of_start(row: Row, doubts: tuple[str, ...]) -> tuple[Judgement, str, str]:
    """Judge a start; the service calls one uncertain whose command has flags that it does not model."""
    if not failed(row):
        return Judgement.AGREE, "starts", ""
    if doubts:
        return Judgement.UNCERTAIN, doubts[0][:CAUSE_LENGTH], "; ".join(doubts)
    return Judgement.FALSE_START, "starts", ""


def _budget(candidate: Candidate) -> str:
    if candidate.memory is None:
        return ""
    weights, left = candidate.memory.weights, candidate.memory.available_kv
    specified = (f"{gib_text(each.low)} to {gib_text(each.high)} GiB" for each in (weights, left))
    return "[weights {}, left for the cache {}]".format(*specified)


def _compared(row: Row, words: str) -> str:
    """Say whether our refusal has the published words: at least half of the longer ones."""
    specified = set(re.findall(r"[a-z]{4,}", str(row["published_outcome"]).lower())) - _OUTCOME_WORDS
    if len(specified) < FEW_WORDS:
        return "no words published"
    ours = set(re.findall(r"[a-z]{4,}", words.lower()))
    return (
        "in the published words"
        if 2 * len(specified & ours) >= len(specified)
        else "in other words than published"
    )


def _reason(candidate: Candidate, words: str) -> str:
    if candidate.error is not None:
        return "memory: may be too little for one request"
    return words[:CAUSE_LENGTH]
