"""No result depends on the address of an object: an address is given to another object when one is gone."""

import ast
from importlib.resources import files
from pathlib import Path

import pytest

ROOMS = (
    "advisor",
    "architecture",
    "backends",
    "calibration",
    "engine_config",
    "engines",
    "explanation",
    "gpus",
    "kv_cache",
)


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_of_the_core_uses_addresses_as_keys(room: str) -> None:
    modules = sorted(Path(str(files("service"))).joinpath(room).rglob("*.py"))
    assert modules
    assert not [
        f"{module.name}:{node.lineno}"
        for module in modules
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Name) and node.id == "id" and isinstance(node.ctx, ast.Load)
    ]
