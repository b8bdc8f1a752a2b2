"""`dryserve manifest`: a Kubernetes manifest or a docker line that starts workers elsewhere."""

from typing import Annotated, Final

import typer

from service.worker.deploy.manifests import SECRET, Form, Launch
from service.worker.deploy.manifests import manifest as written

manifest_app: Final = typer.Typer()


@manifest_app.command()
def manifest(  # noqa: PLR0913 - one for each option
    *,
    form: Annotated[Form, typer.Argument(help="A Kubernetes Job or DaemonSet, or a docker line.")],
    server: Annotated[str, typer.Option(help="Address of the service, as the worker sees it.")],
    image: Annotated[str, typer.Option(help="Image with dryserve, and with torch or the engine.")],
    gpus: Annotated[int, typer.Option(min=1, max=64, help="GPUs that a Job takes.")] = 1,
    python: Annotated[str | None, typer.Option(help="Python of the image that has the engine.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Label that jobs may ask for, repeatable.")] = None,
    secret: Annotated[str, typer.Option(help="Secret whose key `token` is a worker's token.")] = SECRET,
    namespace: Annotated[str | None, typer.Option(help="Namespace of Kubernetes.")] = None,
    pull_secret: Annotated[str | None, typer.Option(help="Secret of the image's registry.")] = None,
    toleration: Annotated[
        list[str] | None, typer.Option(help="Key of a node's taint to tolerate, repeatable.")
    ] = None,
) -> None:
    """Print a manifest or command that starts a worker elsewhere; nothing is sent anywhere."""
    labels, taints = tuple(label or ()), tuple(toleration or ())
    launch = Launch(server, image, gpus, python, labels, secret, namespace, pull_secret, taints)
    typer.echo(written(form, launch), nl=False)
