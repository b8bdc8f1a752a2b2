"""A command as it was read, in an answer."""

from typing import Annotated

from pydantic import Field

from service.application.schemas.base import Output
from service.application.schemas.members import From
from service.engines.arguments.effects import MemoryChange, Touched
from service.launch_command.launch import LaunchForm


class UnusedFlagAnswer(Output):
    """A flag or a variable of the command that the plan does not use."""

    name: str = Field(
        description="Name with underscores, or of a variable in capitals; a key of a JSON value follows a dot"
    )
    reason: str = Field(description="What it changes, in one phrase")
    touches: list[Touched] = Field(description="What it can change; empty where it changes nothing of these")
    memory: MemoryChange | None = Field(
        description="Whether a rank can take more or less of the GPU's memory with it; null where it cannot "
        "change that"
    )
    at_most_mib: int | None = Field(
        description="The most MiB by which it changes the memory of a rank; null where no limit is known"
    )


class FlagsAnswer(Output):
    """Every flag and variable of the command, by what the plan does with it."""

    used: Annotated[list[str], From("flags.used")] = Field(
        description="Names of those that the plan is made with"
    )
    no_effect: Annotated[list[UnusedFlagAnswer], From("flags.no_effect")] = Field(
        description="Those that can change nothing that the plan says"
    )
    not_modelled: Annotated[list[UnusedFlagAnswer], From("flags.not_modelled")] = Field(
        description="Those that can change what the plan says, in a way that is not modelled"
    )


class CommandAnswer(Output):
    """How the command of the request was read."""

    form: Annotated[LaunchForm, From("launch.form")] = Field(description="The kind of text")
    line: Annotated[int, From("launch.line")] = Field(
        description="Line of the text in which the start begins, counted from 1"
    )
    release_basis: Annotated[str, From("launch.release.basis")] = Field(
        description="From what the release is known, or why the text does not say it"
    )
    gpus_per_node: Annotated[int | None, From("launch.placement.gpus_per_node")] = Field(
        description="GPUs that the text gives to one node; null where it does not say"
    )
    nodes: Annotated[int | None, From("launch.placement.nodes")] = Field(
        description="Number of nodes that one of the replicas takes; null where the text does not say"
    )
    replicas: Annotated[int | None, From("launch.placement.replicas")] = Field(
        description="Copies of the whole start; null where the text does not say"
    )
    gpu_name: Annotated[str | None, From("launch.placement.gpu_name")] = Field(
        description="GPU type that the text asks a scheduler for; null where it does not say"
    )
    unresolved: Annotated[list[str], From("launch.unresolved")] = Field(
        description="Variables whose values the text does not give, and that can hold further flags"
    )
    notes: list[str] = Field(description="What a person should know about how the text was read")
