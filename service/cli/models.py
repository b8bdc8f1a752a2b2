"""`dryserve models`: store files of the Hub, for sites that cannot reach it."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from service.cli.catalogs import list_models
from service.cli.exit_codes import ExitCode
from service.cli.list_format import AsJson, ListFormat, is_json
from service.cli.settings_of_host import host_settings
from service.hub.caches.cache import CheckedEntry, HubCache
from service.hub.errors import HubError
from service.hub.folders import FolderModel, import_model, models_below
from service.hub.hub_client import HubClient
from service.hub.transport.credential import SHARED
from service.hub.transport.transfer import hub_http
from service.plan_services import endpoint_of
from service.settings import Settings

cli: Final = typer.Typer(
    name="models",
    help="List models, or store them for use without the Hub.",
    no_args_is_help=True,
)


cli.command("list")(list_models)


@cli.command()
def stored(*, form: ListFormat = None, as_json: AsJson = False) -> None:
    """List the models that were pulled or imported: id, bytes, and the commits or branches of their files."""
    settings = host_settings()
    found = asyncio.run(_entries(settings))
    if not found:
        typer.echo(f"No model is stored in {settings.cache_file or 'memory'}.", err=True)
    if is_json(form, as_json=as_json):
        typer.echo(json.dumps([asdict(each) for each in found]))
        return
    for each in found:
        typer.echo(f"{each.id}  {each.bytes:,} B  {', '.join(each.revisions)}")


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model that is stored for everyone."""

    id: str
    bytes: int
    revisions: list[str]
    """Commits or branches of its files."""


async def _entries(settings: Settings) -> list[StoredModel]:
    """Return the models that are stored for everyone, by id."""
    cache = HubCache(settings.cache_file)
    entries = [entry for entry in await cache.check() if entry.intact and entry.key.owner == SHARED]
    await cache.close()
    models: dict[str, list[CheckedEntry]] = {}
    for entry in entries:
        models.setdefault(entry.key.model, []).append(entry)
    return [
        StoredModel(model, sum(each.size for each in found), sorted({each.key.revision for each in found}))
        for model, found in sorted(models.items())
    ]


@cli.command()
def pull(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids on the Hub: organisation/name.")],
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit, of all of them.")] = None,
) -> None:
    """Fetch models from the Hub and store them.

    Exits with 1 when not all of them could be fetched, 2 when HF_HUB_OFFLINE forbids it.
    """
    settings = host_settings()
    if settings.hf_hub_offline:
        typer.echo("HF_HUB_OFFLINE is set, so the Hub is not asked: unset it to pull models.", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)
    raise typer.Exit(asyncio.run(_pull(ids, revision, settings)))


@cli.command("import")
def import_(
    folder: Annotated[Path, typer.Argument(help="A cache or a download of the Hub's tools.", exists=True)],
    model_id: Annotated[
        str | None, typer.Option("--id", help="Id of a model whose files are in FOLDER itself.")
    ] = None,
) -> None:
    """Store the models of a folder: those below `models--org--name`, or in `org/name`.

    Exits with 1 when not all of them could be read, 2 when there are none.
    """
    found = list(models_below(folder, model_id))
    if not found:
        typer.echo(f"No config.json or params.json lies in {folder} or in org/name below it.", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)
    raise typer.Exit(asyncio.run(_import(found, host_settings())))


@cli.command()
def verify() -> None:
    """Check everything that is stored, and delete what is damaged.

    Exits with 1 when something was damaged.
    """
    raise typer.Exit(asyncio.run(_verify(host_settings())))


async def _pull(ids: list[str], revision: str | None, settings: Settings) -> ExitCode:
    whole = True
    async with hub_http() as http:
        client = HubClient(http, endpoint=endpoint_of(settings), cache=HubCache(settings.cache_file))
        for model_id in ids:
            whole &= await _stored(model_id, _pulled(client, model_id, revision), settings.cache_file)
        await client.close()
    return ExitCode.OK if whole else ExitCode.NOT_ALL


async def _pulled(client: HubClient, model_id: str, revision: str | None) -> str | None:
    fetched = await client.fetch(model_id, revision)
    if fetched.stale:
        raise HubError(model_id, fetched.note or "the Hub could not be asked anew")
    return fetched.revision


async def _import(found: list[FolderModel], settings: Settings) -> ExitCode:
    cache, whole = HubCache(settings.cache_file), True
    for model in found:
        whole &= await _stored(model.id, _imported(model, cache), settings.cache_file)
    await cache.close()
    return ExitCode.OK if whole else ExitCode.NOT_ALL


async def _imported(model: FolderModel, cache: HubCache) -> str | None:
    await import_model(model, cache)
    return model.commit


async def _stored(model_id: str, keeping: Coroutine[object, object, str | None], path: Path | None) -> bool:
    """Print what became of a model and how to plan it, and return whether it is stored."""
    try:
        commit = await keeping
    except (HubError, OSError) as error:
        typer.echo(f"{ascii(model_id)[1:-1]}: {error}", err=True)
        return False
    at = f"at commit {commit}" if commit else "(its files do not say their commit)"
    typer.echo(f"stored {model_id} {at} in {path or 'memory'}; plan it: dryserve plan {model_id} --gpu GPU")
    return True


async def _verify(settings: Settings) -> ExitCode:
    cache = HubCache(settings.cache_file)
    entries = await cache.check()
    await cache.close()
    if cache.was_damaged:
        typer.echo(f"deleted, since the whole file was damaged: {cache.path}", err=True)
        return ExitCode.NOT_ALL
    damaged = [entry for entry in entries if not entry.intact]
    for entry in damaged:
        key = entry.key
        typer.echo(f"dropped, since it was damaged: {key.file} of {key.model} at {key.revision}", err=True)
    stored = {entry.key.model for entry in entries if entry.intact}
    size = sum(entry.size for entry in entries if entry.intact)
    whole = len(entries) - len(damaged)
    entries_words = "1 entry" if whole == 1 else f"{whole} entries"
    models = "1 model" if len(stored) == 1 else f"{len(stored)} models"
    typer.echo(f"{entries_words} of {models}, {size} bytes, in {cache.path or 'memory'}: whole")
    return ExitCode.NOT_ALL if damaged else ExitCode.OK
