"""deferred_validators: models that are made meanwhile build their validators at the first use."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict


@contextmanager
def deferred_validators() -> Iterator[None]:
    """Let models of libraries build their validators at the first use, as ours do.

    FastAPI has dozens of models, of which it uses none before someone asks for the OpenAPI document.
    """
    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(defer_build=True)
    try:
        yield
    finally:
        BaseModel.model_config = before
