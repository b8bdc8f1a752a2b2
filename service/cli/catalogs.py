"""`dryserve gpus list`, `dryserve engines list`, `dryserve models list`: what can be planned, by name."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from service.application.catalogs.choice_catalog import choices_by_flag
from service.application.catalogs.model_catalog import BundledModel, bundled_models
from service.application.schemas.answers.engine_list import engine_list
from service.application.schemas.answers.hardware import GpuAnswer, GpuList
from service.application.schemas.answers.model import ModelList
from service.application.text.layout import NARROWEST
from service.cli.exit_codes import ExitCode
from service.cli.list_format import AsJson, ListFormat, is_json
from service.gpus.catalog import gpu_catalog
from service.gpus.names import words_of
from service.hub.bundled.snapshot import BundledSnapshot
from service.nearest_names import nearest
from service.units import GIB, gib_text

WIDTH: Final = 1000
"""Columns of a line outside a terminal without COLUMNS: a row is one line, which can be searched."""
NARROW: Final = 80
"""Columns of a usual line."""
WIDE: Final = 120
"""Columns of a line with room for every column of a table."""
MORE: Final = "With words of a name, its quantized checkpoints and their sizes are listed too."
BILLION: Final = 10**9
gpus: Final = typer.Typer(name="gpus", help="GPU types that can be planned.", no_args_is_help=True)
engines: Final = typer.Typer(name="engines", help="Releases that can be planned.", no_args_is_help=True)
Search = Annotated[
    list[str] | None, typer.Argument(metavar="[WORDS...]", help="Words of the names; left out: all.")
]


@gpus.command("list")
def list_gpus(search: Search = None, *, form: ListFormat = None, as_json: AsJson = False) -> None:
    """List GPU types. Each can be given by its id, its name, or a shorter name such as RTX 4090.

    The word mig among WORDS lists slices too, such as a100-sxm-80gb-mig-3g.40gb.
    """
    words = set(words_of(" ".join(search or ())))
    catalog = gpu_catalog()
    listed = (*catalog.types, *catalog.slices) if "mig" in words else catalog.types
    found = [gpu for gpu in listed if words <= {*words_of(gpu.id), *words_of(gpu.name)}]
    if search and not found:
        _say_none("GPU type", search, catalog.nearest(" ".join(search)))
    if is_json(form, as_json=as_json):
        answer = GpuList(gpus=[GpuAnswer.model_validate(gpu) for gpu in found], next=None)
        typer.echo(answer.model_dump_json())
        return
    rows = (
        (
            gpu.id,
            gpu.name,
            gib_text(gpu.memory_bytes),
            str(gpu.compute_capability or ""),
            gpu.unmodelled or "",
        )
        for gpu in found
    )
    _print(("id", "name", "GiB", "compute capability", "not known"), rows)


@engines.command("list")
def list_engines(*, form: ListFormat = None, as_json: AsJson = False) -> None:
    """List releases of vLLM, the newest last, and how each was checked."""
    answer = engine_list()
    if is_json(form, as_json=as_json):
        typer.echo(answer.model_dump_json())
        return
    rows = (
        (engine.name, release.version, str(release.released), ", ".join(release.checked))
        for engine in answer.engines
        for release in engine.releases
    )
    _print(("engine", "release", "released", "checked by"), rows)


@engines.command("values")
def list_values(
    flag: Annotated[
        str | None, typer.Argument(metavar="[FLAG]", help="Name of a flag, such as attention-backend.")
    ] = None,
    *,
    form: ListFormat = None,
    as_json: AsJson = False,
) -> None:
    """List the values that vLLM takes for FLAG, with the releases that take each; without FLAG, the flags."""
    by_flag = choices_by_flag()
    if flag is None:
        if is_json(form, as_json=as_json):
            _echo_json(_values_of(by_flag))
            return
        _print(("flag", "values"), ((name, str(len(values))) for name, values in by_flag.items()))
        return
    name = flag.lstrip("-").replace("-", "_")
    if name not in by_flag:
        near = ", ".join(nearest(name, by_flag)) or "`dryserve engines values` lists them"
        typer.echo(f"{flag} is no flag that takes only certain words; nearest: {near}", err=True)
        raise typer.Exit(ExitCode.BAD_INPUT)
    if is_json(form, as_json=as_json):
        _echo_json(_values_of({name})[0])
        return
    rows = ((value, str(since), str(until or "")) for value, (since, until) in by_flag[name].items())
    _print((name, "since", "until"), rows)


def _values_of(flags: Iterable[str]) -> list[dict[str, object]]:
    """Return the values of flags, as the service answers them."""
    wanted = frozenset(flags)
    answers = (each for engine in engine_list().engines for each in engine.flag_values)
    return [each.model_dump(mode="json") for each in answers if each.flag in wanted]


def _echo_json(answer: object) -> None:
    typer.echo(json.dumps(answer, ensure_ascii=False))


def list_models(search: Search = None, *, form: ListFormat = None, as_json: AsJson = False) -> None:
    """List the bundled models, which are planned without the Hub. Any other id is asked of the Hub.

    With WORDS the quantized checkpoints of each model stand below it, with the memory that their weights
    take: ~ is computed, from the layout that the name stands for where the config is not bundled.
    """
    snapshot = BundledSnapshot()
    found = bundled_models(snapshot, " ".join(search or ()))
    if search and not found:
        _say_none("bundled model", search, snapshot.nearest(" ".join(search)))
    if is_json(form, as_json=as_json):
        typer.echo(ModelList.of(found, None).model_dump_json())
        return
    rows = [row for model in found for row in _model_rows(model, with_variants=bool(search))]
    heads: tuple[str, ...] = ("id", "billions", "GiB", "weights", "class", "not planned because")
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    _print(heads, rows, needed=((NARROW, 3), (WIDE, 4)))
    if not search:
        typer.echo(MORE, err=True)


def _model_rows(model: BundledModel, *, with_variants: bool) -> Iterator[tuple[str, ...]]:
    yield (
        model.id,
        "" if model.parameters is None else f"{model.parameters / BILLION:.1f}",
        "" if model.weight_bytes is None else gib_text(model.weight_bytes),
        model.quantization or model.dtype or "",
        model.architecture,
        model.unmodelled or "",
    )
    for each in model.variants if with_variants else ():
        about = "~" if each.is_computed else ""
        size = "" if each.weight_bytes is None else f"{about}{each.weight_bytes / GIB:.1f}"
        yield (f"  {each.id}", "", size, each.format.removeprefix("quantized."), "", "")


def _say_none(kind: str, search: Sequence[str], near: Sequence[str]) -> None:
    """Say on standard error that a list is empty because nothing has all words, and what is spelt alike."""
    words = f"; nearest: {', '.join(near)}" if near else ""
    typer.echo(f"No {kind} has all of these words in its name: {' '.join(search)}{words}", err=True)


def _print(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, needed: Sequence[tuple[int, int]] = ()
) -> None:
    """Print a table; none cuts a name. Columns for which the line has no room are left out, the last first.

    ``needed``: how many of the first columns are shown on lines shorter than a width, the least width first.
    """
    columns = max(NARROWEST, shutil.get_terminal_size((WIDTH, 0)).columns)
    listed = [tuple(row) for row in rows]
    shown = next((most for width, most in needed if columns < width), len(heads))
    while shown > 1 and _least(_table(heads[:shown], listed)) > columns:
        shown -= 1
    table = _table(heads[:shown], listed)
    console = Console(width=max(columns, _least(table)), color_system=None)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines() if line.strip()))
    if shown < len(heads):
        wide = max(_least(_table(heads, listed)), *(width for width, _ in needed), NARROWEST)
        said = f"{wide} columns also show: {', '.join(heads[shown:])}; --format json has all."
        typer.echo(fill(said, columns), err=True)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*row[: len(heads)])
    return table


def _least(table: Table) -> int:
    """Return the columns of a terminal in which no word of a table is broken."""
    return Console(width=WIDTH, color_system=None).measure(table).minimum
