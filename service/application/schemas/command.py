"""A command as it was read, in an answer."""

from typing import Self

from pydantic import Field

from service.application.schemas.base import Output
from service.engines.arguments.effects import MemoryChange, Touched
from service.launch_command.command_reading import CommandReading
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

    used: list[str] = Field(description="Names of those that the plan is made with")
    no_effect: list[UnusedFlagAnswer] = Field(description="Those that can change nothing that the plan says")
    not_modelled: list[UnusedFlagAnswer] = Field(
        description="Those that can change what the plan says, in a way that is not modelled"
    )

    @classmethod
    def of(cls, command: CommandReading) -> Self:
        """Describe the flags of a command."""
        flags = command.flags
        return cls(
            used=list(flags.used),
            no_effect=[UnusedFlagAnswer.model_validate(flag) for flag in flags.no_effect],
            not_modelled=[UnusedFlagAnswer.model_validate(flag) for flag in flags.not_modelled],
        )


class CommandAnswer(Output):
    """How the command of the request was read."""

    form: LaunchForm = Field(description="The kind of text")
    line: int = Field(description="Line of the text in which the start begins, counted from 1")
    release_basis: str = Field(description="From what the release is known, or why the text does not say it")
    gpus_per_node: int | None = Field(
        description="GPUs that the text gives to one node; null where it does not say"
    )
    nodes: int | None = Field(
        description="Number of nodes that one of the replicas takes; null where the text does not say"
    )
    replicas: int | None = Field(description="Copies of the whole start; null where the text does not say")
    gpu_name: str | None = Field(
        description="GPU type that the text asks a scheduler for; null where it does not say"
    )
    unresolved: list[str] = Field(
        description="Variables whose values the text does not give, and that can hold further flags"
    )
    notes: list[str] = Field(description="What a person should know about how the text was read")

    @classmethod
    def of(cls, command: CommandReading) -> Self:
        """Describe a command."""
        launch, placement = command.launch, command.launch.placement
        return cls(
            form=launch.form,
            line=launch.line,
            release_basis=launch.release.basis,
            gpus_per_node=placement.gpus_per_node,
            nodes=placement.nodes,
            replicas=placement.replicas,
            gpu_name=placement.gpu_name,
            unresolved=list(launch.unresolved),
            notes=list(command.notes),
        )
