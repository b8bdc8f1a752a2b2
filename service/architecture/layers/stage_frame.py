"""Which modules outside the layers every pipeline stage builds."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StageFrame:
    """Modules outside the layers that every pipeline stage builds, even where it does not run them.

    By default only the first stage has the embedding, and only the last one the norm and the output.
    """

    embedding: bool = False
    norm: bool = False
    output: bool = False


ENDS_ONLY: Final = StageFrame()
EMBEDDING_EVERYWHERE: Final = StageFrame(embedding=True)
ALL_EVERYWHERE: Final = StageFrame(embedding=True, norm=True, output=True)
