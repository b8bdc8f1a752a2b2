"""The Hub's own library, imported beside the event loop: it takes some tenths of a second."""

import asyncio
from functools import cache
from importlib import import_module
from types import ModuleType


async def hub_library() -> ModuleType:
    """Return the module that reads addresses and errors of the Hub; a cached file needs none of it."""
    return _library() if _library.cache_info().currsize else await asyncio.to_thread(_library)


@cache
def _library() -> ModuleType:
    return import_module("huggingface_hub.file_download")
