"""A function's signature says which rules it may look at."""

import ast
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from service.engines.releases import TOPICS

ROOMS = (
    "kv_cache", "backends", "engine_config", "memory", "calibration", "explanation", "advisor", "application",
)  # fmt: skip
SERVICE = Path(str(files("service")))
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function, str]]:
    """Yield the functions that take all rules of a release: name, definition and name of the argument."""
    for room in ROOMS:
        for module in sorted(SERVICE.joinpath(room).rglob("*.py")):
            for node in ast.walk(ast.parse(module.read_text("utf-8"))):
                if isinstance(node, Function):
                    yield from ((f"{module.stem}.{node.name}", node, name) for name in _taken(node))


def _taken(function: Function) -> Iterator[str]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.annotation is not None and "EngineRules" in ast.unparse(argument.annotation):
            yield argument.arg


def groups_read(function: Function, argument: str) -> set[str]:
    """Return the groups that a function reads; each call that takes the rules whole counts as a group."""
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == argument]
    around = [parents[use] for use in uses]
    return {node.attr if isinstance(node, ast.Attribute) else ast.unparse(node) for node in around}


@pytest.mark.parametrize(
    ("function", "argument"),
    [pytest.param(function, argument, id=name) for name, function, argument in functions()],
)
def test_what_reads_one_group_takes_that_group(function: Function, argument: str) -> None:
    """All rules are taken to be handed on, or to read several groups."""
    read = groups_read(function, argument)
    assert len(read) != 1 or not read <= set(TOPICS)
