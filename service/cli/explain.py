"""`dryserve explain`: compare a startup log with its plan."""

import asyncio
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from queue import Empty, Queue
from typing import Annotated, Any, BinaryIO, Final, Literal, TypeAlias
from zlib import MAX_WBITS, decompressobj
from zlib import error as zlib_error

import typer

from service.application.plans.log_requests import log_request
from service.application.probes.log_evidence import Sender, store_log
from service.application.schemas.explanation import ExplainBody, ExplainParameters, ExplanationAnswer
from service.application.services import PlanServices, with_probes
from service.application.text.engine_log import render_engine_log
from service.application.text.explanation import render_explanation
from service.application.text.explanation_markdown import render_markdown
from service.application.text.headline import answered, understood
from service.calibration.from_logs import StoredLog
from service.cli.bad_input import exits_on_bad_input, with_config
from service.cli.exit_codes import ExitCode
from service.cli.hub_client import hub_client
from service.cli.options import option, with_options
from service.cli.plan import width
from service.cli.settings_of_host import host_settings
from service.engines_compared.engine_logs import EngineLog, engine_log_of
from service.explanation.explanation_types import Explanation
from service.plan_services import build_plan_services
from service.settings import Settings
from service.startup_log.failures.said_failures import INTERRUPTED
from service.startup_log.log import StartupLog, read_log
from service.startup_log.text.long_logs import GZIP, condense
from service.startup_log.watching import LogWatcher

ExplanationFormat: TypeAlias = Literal["json", "table", "markdown"]
"""What an explanation can be written as."""
PIECE: Final = 1 << 20
"""Bytes that are read at once."""
QUIET_SECONDS: Final = 2.0
"""Seconds without a new line after which a failure is explained: its traceback is complete then."""
GZIP_HEADER: Final = 16
"""What zlib takes with the size of its window to read what gzip wrote."""
POLL_SECONDS: Final = 0.5
"""Seconds between two looks at a file that grows."""
REPORTER: Final = "logs"
"""Reporter of the logs that are stored from the command line."""
LOG: Final = typer.Argument(help="What the engine printed; left out or -: standard input.", metavar="FILE")
FROM_THE_LOG: Final = {
    "tensor_parallel_size": "Ranks (GPUs) that share every layer; left out: as in the log, or else 1",
    "kv_cache_dtype": "Dtype of the cache; left out: as in the log, or else auto",
}
"""Help where a log says what was asked."""
STEPS: Final[Mapping[str, str]] = {
    "": "the start begins",
    "loading": "the weights are being loaded",
    "profiling": "the weights are loaded; the first batch is profiled",
    "cache": "the memory for the cache is known",
    "capture": "the cache is there; CUDA graphs are captured",
    "serving": "ready: the server answers requests",
}
"""What each milestone means, in words."""


def explain(
    *,
    file: typer.FileBinaryRead,
    config: Path | None,
    format: ExplanationFormat | None,  # noqa: A002 - the option's own name
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Store its figures in this host's database, for later plans."),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Read on while the log is written, from a file or from a pipe of `docker logs -f`: each "
            "step is printed with its time, and a failure is explained at once.",
        ),
    ] = False,
    **flags: Any,  # noqa: ANN401 - checked by ExplainParameters
) -> None:
    """Explain the startup log in FILE: what happened, why, what to do, and what differs from the plan.

    Exits with 0 when the start agrees or is explained, or a running server failed at a request alone or was
    asked to stop, 3 when a failure is explained, 5 when nothing in the text says what happened, 2 on bad
    input.
    """
    with exits_on_bad_input():
        document = with_config(ExplainParameters(**flags).document(), config)
        body = ExplainBody.model_validate(document)
        if file.isatty():
            typer.echo("Paste the log, then press Ctrl-D on a line of its own.", err=True)
        if follow:
            raise typer.Exit(_follow(file, body, format or "table"))
        condensed = condense(_pieces(file))
        log, other = read_log(condensed), engine_log_of(condensed)
        explanation, stored = asyncio.run(_explanation(log, body, host_settings(), keep=keep))
    form = format or _usual()
    if other is not None and form == "table" and not understood(explanation):
        typer.echo(render_engine_log(other, width()), nl=False)
        raise typer.Exit(ExitCode.OK)
    typer.echo(_written(explanation, stored, form, other), nl=False)
    raise typer.Exit(ExitCode.OK if other is not None else _exit_code(explanation))


explain_app: Final = typer.Typer()
explain_app.command()(
    with_options(
        explain,
        ExplainParameters,
        ExplanationFormat,
        option("file", typer.FileBinaryRead, LOG, "-"),
        words=FROM_THE_LOG,
    )
)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield a log piece by piece, unpacked as far as it goes if gzip compressed it."""
    first = file.read(PIECE)
    if not first.startswith(GZIP):
        yield first
        yield from iter(lambda: file.read(PIECE), b"")
        return
    packed = chain((first,), iter(lambda: file.read(PIECE), b""))
    unpacker = decompressobj(wbits=MAX_WBITS | GZIP_HEADER)
    for piece in packed:
        try:
            while piece and not unpacker.eof:
                yield unpacker.decompress(piece, PIECE)
                piece = unpacker.unconsumed_tail  # noqa: PLW2901 - what is left of it
        except zlib_error:
            return


def _usual() -> ExplanationFormat:
    return "table" if sys.stdout.isatty() else "json"


def _exit_code(explanation: Explanation) -> ExitCode:
    if not answered(explanation):
        return ExitCode.NOT_UNDERSTOOD
    ending = explanation.ending
    stopped = ending is not None and ending.serving and ending.cause == INTERRUPTED
    failed = ending is not None and not (ending.earlier or ending.refused or ending.answers or stopped)
    return ExitCode.FAILED if failed else ExitCode.OK


def _written(
    explanation: Explanation,
    stored: StoredLog | None,
    form: ExplanationFormat,
    other: EngineLog | None = None,
) -> str:
    if form == "table":
        return render_explanation(explanation, stored, width())
    if form == "markdown":
        return render_markdown(explanation)
    return ExplanationAnswer.of(explanation, stored, other).model_dump_json() + "\n"


def _follow(file: BinaryIO, body: ExplainBody, form: ExplanationFormat) -> ExitCode:
    """Print the steps of a start while its log is written, and explain a failure once it is complete."""
    watcher, started = LogWatcher(), time.monotonic()
    lines: Queue[bytes | None] = Queue()
    threading.Thread(target=_read_on, args=(file, lines), daemon=True).start()
    code = ExitCode.NOT_UNDERSTOOD
    while True:
        try:
            line = lines.get(timeout=QUIET_SECONDS if watcher.failing else None)
        except Empty:
            code = _explained_now(watcher, body, form)
            continue
        except KeyboardInterrupt:
            return code
        if line is None:
            return _explained_now(watcher, body, form)
        for step in watcher.feed(line.decode("utf-8", "replace")):
            seconds = time.monotonic() - started
            typer.echo(f"{seconds:9.1f} s  line {step.line}: {STEPS[step.milestone]}")


def _explained_now(watcher: LogWatcher, body: ExplainBody, form: ExplanationFormat) -> ExitCode:
    log = read_log(watcher.so_far())
    explanation, _ = asyncio.run(_explanation(log, body, host_settings(), keep=False))
    typer.echo(_written(explanation, None, form), nl=False)
    return _exit_code(explanation)


def _read_on(file: BinaryIO, lines: "Queue[bytes | None]") -> None:
    """Pass the lines of a log on as they come; the end of a pipe is the end, that of a file is not."""
    grows = file.seekable()
    rest = b""
    while True:
        line = file.readline()
        rest += line
        if rest.endswith(b"\n") or (rest and not line and not grows):
            lines.put(rest)
            rest = b""
        elif not line and grows:
            time.sleep(POLL_SECONDS)
        elif not line:
            lines.put(None)
            return


async def _explanation(
    log: StartupLog, body: ExplainBody, settings: Settings, *, keep: bool
) -> tuple[Explanation, StoredLog | None]:
    async with hub_client() as http:
        services = build_plan_services(settings, http)
        explanation = (await log_request(log, body, services)).explain(log)
        if not keep:
            return explanation, None
        return explanation, await _kept(explanation, body, services, settings)


async def _kept(
    explanation: Explanation, body: ExplainBody, planning: PlanServices, settings: Settings
) -> StoredLog:
    """Store the figures of a log; only this needs a database and its libraries."""
    from service.logs import configure_service_logs  # noqa: PLC0415
    from service.probe_services import build_database, build_probes  # noqa: PLC0415

    configure_service_logs()
    database = build_database(settings)
    try:
        services = with_probes(planning, build_probes(settings, database))
        return await store_log(explanation, body, services, sender=Sender(REPORTER))
    finally:
        await database.close()
