"""`dryserve openapi`: the service's contract."""

from typing import Final

import typer

from service.api.openapi_yaml import openapi_yaml
from service.bootstrap import build_app
from service.cli.settings_of_host import host_settings

openapi_app: Final = typer.Typer()


@openapi_app.command()
def openapi() -> None:
    """Print the OpenAPI document as YAML."""
    typer.echo(openapi_yaml(build_app(host_settings())), nl=False)
