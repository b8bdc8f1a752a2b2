"""`dryserve openapi`: the service's contract."""

import typer

from service.api.openapi import openapi_yaml
from service.bootstrap import build_app
from service.settings import Settings


def openapi() -> None:
    """Print the OpenAPI document as YAML."""
    typer.echo(openapi_yaml(build_app(Settings())), nl=False)
