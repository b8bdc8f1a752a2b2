"""Revisions of the tables: which one a database has, and which one this program needs.

There are two kinds of migrations. One that *expands* only adds: programs of older revisions go on. One
that *contracts* removes what no supported program uses any more, and raises `oldest_program` in the table
`schema_compatibility`. So an older program can stay beside newer tables until they are contracted.
"""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

MIGRATIONS: Final = Path(__file__).parent / "migrations"
FIRST: Final = "0001"
HEAD: Final = max(path.name[1:5] for path in (MIGRATIONS / "versions").glob("v[0-9]*.py"))
"""The revision that this program needs: that of its newest migration."""


class Fitness(StrEnum):
    """How the tables of a database suit this program."""

    CURRENT = "current"
    """They have the revision that this program needs."""
    OLDER = "older"
    """They must be upgraded first."""
    NEWER = "newer"
    """They have a later revision, and still suit this program."""
    TOO_NEW = "too_new"
    """They have a later revision, which this program cannot use."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a database."""

    revision: str | None
    """Their revision; None where there are none."""
    oldest_program: str = FIRST
    """The least revision that a program must need to be able to use them."""

    @property
    def fitness(self) -> Fitness:
        """How they suit this program."""
        if self.revision is None or self.revision < HEAD:
            return Fitness.OLDER
        if self.revision == HEAD:
            return Fitness.CURRENT
        return Fitness.NEWER if self.oldest_program <= HEAD else Fitness.TOO_NEW

    @property
    def summary(self) -> str:
        """One sentence for operators."""
        has = "no tables" if self.revision is None else f"tables of revision {self.revision}"
        match self.fitness:
            case Fitness.CURRENT:
                return f"The database has {has}, as this program needs."
            case Fitness.NEWER:
                return f"The database has {has}, which also suit this program of revision {HEAD}."
            case Fitness.TOO_NEW:
                return (
                    f"The database has {has}, which need a program of revision {self.oldest_program} or "
                    f"newer; this one has revision {HEAD}."
                )
            case Fitness.OLDER:
                return (
                    f"The database has {has}; this program needs revision {HEAD}: run `dryserve database "
                    "upgrade`."
                )
