"""The OpenAPI document: FastAPI's own, with examples and the schema of problems."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from service.api.examples import EXAMPLES, answers
from service.api.middleware.request_log import PROBES
from service.api.responses import VERSION_PREFIX
from service.application.schemas.answers.problem import Problem

REFERENCE = "#/components/schemas/{model}"


class DocumentedApp(FastAPI):
    """An application whose OpenAPI document is complete."""

    def openapi(self) -> dict[str, Any]:
        """Return the document; it is built once."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["paths"] = {_versioned(path): item for path, item in document["paths"].items()}
            _add_problem(document)
            recorded = answers()
            for path in document["paths"].values():
                for operation in path.values():
                    # An empty requirement says that no token is needed.
                    operation.setdefault("security", [{}])
                    _add_example(operation)
                    _add_answer(operation, recorded)
        return super().openapi()


def _versioned(path: str) -> str:
    """Return a path as it is documented; those of operators have no version."""
    return path if path in PROBES else f"{VERSION_PREFIX}{path}"


def _add_problem(document: dict[str, Any]) -> None:
    _, schemas = models_json_schema([(Problem, "serialization")], ref_template=REFERENCE)
    document["components"]["schemas"].update(schemas["$defs"])


def _add_example(operation: dict[str, Any]) -> None:
    example = EXAMPLES.get(operation["operationId"])
    if example is None:
        return
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in example.parameters:
            parameter["example"] = example.parameters[parameter["name"]]
    if example.body is not None:
        content = operation["requestBody"]["content"]["application/json"]
        content["examples"] = {operation["operationId"]: {"value": _plain(example.body)}}


def _add_answer(operation: dict[str, Any], recorded: Mapping[str, Any]) -> None:
    name = operation["operationId"]
    if name in recorded:
        operation["responses"]["200"]["content"]["application/json"]["example"] = recorded[name]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    return {key: _plain(inner) for key, inner in value.items()} if hasattr(value, "items") else value
