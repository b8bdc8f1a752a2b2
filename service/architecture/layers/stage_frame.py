"""Which modules outside the layers every pipeline stage builds."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class StageFrame:
    """What stands around the layers and every pipeline stage builds, used or not.

    Without, the first stage has the embedding and the last one the norm and the output.
    """

    embedding: bool = False
    norm: bool = False
    output: bool = False


ENDS_ONLY: Final = StageFrame()
EMBEDDING_EVERYWHERE: Final = StageFrame(embedding=True)
ALL_EVERYWHERE: Final = StageFrame(embedding=True, norm=True, output=True)
