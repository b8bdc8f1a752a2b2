"""Starts that a Python program or a Ray Serve configuration gives: its values are read, nothing is run."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from service.launch_command.launch import (
    MISSING,
    Invocation,
    LaunchForm,
    Placement,
    UnreadableCommand,
    Value,
)

_CALLS: Final[Mapping[str, LaunchForm]] = {
    "LLMConfig": LaunchForm.RAY_SERVE,
    "LLM": LaunchForm.PYTHON,
    "EngineArgs": LaunchForm.PYTHON,
    "AsyncEngineArgs": LaunchForm.PYTHON,
    "vLLMEngineProcessorConfig": LaunchForm.RAY_SERVE,
}
"""Classes whose arguments are flags of the engine, or hold them."""
MAX_BRACKETS: Final = 60
MAX_CALLS: Final = 200


def python_starts(text: str) -> tuple[Invocation, ...]:
    """Return the starts of a Python program: its calls of ``LLMConfig``, ``LLM`` and ``EngineArgs``.

    Raises:
        UnreadableCommand: it is no Python, or nested too deeply.
    """
    tree = _parsed(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _CALLS]
    names = _assigned(tree)
    return tuple(start for call in calls[:MAX_CALLS] for start in _of_call(call, names))


def _parsed(text: str) -> ast.AST:
    depth = deepest = 0
    for each in text:
        depth += (each in "([{") - (each in ")]}")
        deepest = max(deepest, depth)
    if deepest > MAX_BRACKETS:
        raise UnreadableCommand(f"the program has more than {MAX_BRACKETS} brackets inside each other")
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise UnreadableCommand(f"line {error.lineno or 1}: this is no Python") from None
    except (ValueError, RecursionError, MemoryError):
        raise UnreadableCommand("this is no Python that can be read") from None


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _assigned(tree: ast.AST) -> dict[str, ast.expr | None]:
    """Return names that are assigned once, with what is assigned."""
    found: dict[str, ast.expr | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            found[name] = None if name in found else node.value
    return found


def _of_call(call: ast.Call, names: Mapping[str, ast.expr | None]) -> Iterator[Invocation]:
    given = {word.arg: _value(word.value, names) for word in call.keywords if word.arg is not None}
    if call.args and _CALLS[_name(call.func)] is LaunchForm.PYTHON:
        given.setdefault("model", _value(call.args[0], names))
    if _CALLS[_name(call.func)] is LaunchForm.RAY_SERVE:
        yield _ray_start(given, call.lineno)
        return
    model = given.pop("model", None)
    yield Invocation(
        LaunchForm.PYTHON,
        call.lineno,
        settings=tuple(given.items()),
        model=model if isinstance(model, str) else None,
    )


def _value(  # noqa: PLR0911 - one for each kind of expression
    node: ast.expr, names: Mapping[str, ast.expr | None], depth: int = 0
) -> Value:
    """Return the value of an expression; ``MISSING`` where the program calculates it."""
    if depth > MAX_BRACKETS:
        return MISSING
    match node:
        case ast.Constant():
            return node.value if isinstance(node.value, str | int | float | bool | None) else MISSING
        case ast.Dict():
            pairs = zip(node.keys, node.values, strict=True)
            return {
                key.value: _value(value, names, depth + 1)
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
        case ast.List() | ast.Tuple():
            return [_value(each, names, depth + 1) for each in node.elts]
        case ast.Call() if _name(node.func) in {"dict", "ModelLoadingConfig", "LLMEngine"}:
            return {word.arg: _value(word.value, names, depth + 1) for word in node.keywords if word.arg}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Name() if names.get(node.id) is not None:
            known = names[node.id]
            # A name that leads back to itself ends at the depth.
            return MISSING if known is None else _value(known, names, depth + 10)
        case _:
            return MISSING


def ray_starts(document: Mapping[str, Any]) -> Iterator[Invocation]:
    """Yield the starts of a Ray Serve configuration: its applications' ``llm_configs``.

    Source: Ray 2.50, ray.serve.llm LLMConfig: `model_loading_config`, `engine_kwargs`, `accelerator_type`,
    `deployment_config`.
    """
    if "engine_kwargs" in document or "model_loading_config" in document:
        yield _ray_start(document, _line(document))
        return
    for application in _dicts(document.get("applications")):
        arguments = application.get("args")
        if isinstance(arguments, dict):
            for config in (*_dicts(arguments.get("llm_configs")), *_dicts([arguments.get("llm_config")])):
                yield _ray_start(config, _line(config))


def _dicts(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a value of a document
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _line(document: Mapping[str, Any]) -> int:
    return getattr(next(iter(document), None), "line", 1)


def _ray_start(config: Mapping[str, Value], line: int) -> Invocation:
    loading = config.get("model_loading_config")
    loading = loading if isinstance(loading, dict) else {}
    source = loading.get("model_source") or loading.get("model_id") or config.get("model_source")
    engine = config.get("engine_kwargs")
    engine = engine if isinstance(engine, dict) else {}
    deployment = config.get("deployment_config")
    accelerator = config.get("accelerator_type")
    return Invocation(
        LaunchForm.RAY_SERVE,
        line,
        settings=tuple((str(name), value) for name, value in engine.items()),
        model=source if isinstance(source, str) else None,
        placement=Placement(
            replicas=_replicas(deployment if isinstance(deployment, dict) else {}),
            gpu_name=accelerator if isinstance(accelerator, str) else None,
        ),
    )


def _replicas(deployment: Mapping[str, Value]) -> int | None:
    scaling = deployment.get("autoscaling_config")
    count = deployment.get("num_replicas")
    if count is None and isinstance(scaling, dict):
        count = scaling.get("min_replicas")
    return count if isinstance(count, int) and not isinstance(count, bool) else None
