"""Names the check whose message alone says why something failed: its package, and where it stands."""

from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.engine_errors import EngineError, engine_error, packages_read
from service.startup_log.catalogue.origins import FailureOrigin, gives_reason, innermost_part
from service.startup_log.catalogue.parts import PACKAGES
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.logged_failure import OF_SYSTEM, Failure
from service.startup_log.failures.stated_rules import REFUSED, CheckingPlace, states_rule

_REFUSED: Final = next(cause for cause in CAUSES if cause.name == REFUSED)
PASSED_ON: Final = (
    *("/torch/_ops.py", "/torch/nn/modules/module.py", "/torch/utils/_contextlib.py"),
    *("/torch/_compile.py", "/torch/_dynamo/eval_frame.py", "/torch/cuda/graphs.py"),
    *("/pydantic/_internal/_dataclasses.py", "/pydantic/dataclasses.py", "/pydantic/main.py"),
)
"""torch 2.4 to 2.11, pydantic 2: files whose functions only call what they were given, and raise nothing
of their own."""


def checking_place(failure: Failure) -> CheckingPlace | None:
    """Return the place of the check that raised an exception; ``None`` where nothing shows its package."""
    frame = next((each for each in failure.frames if not _passes_on(each)), None)
    if frame is not None:
        package = _package_of(frame)
        return CheckingPlace(package, frame.path.rpartition("/")[2], frame.function) if package else None
    error = None if failure.frames else engine_error(failure.type, failure.message)
    return None if error is None else _place_of(error)


def with_checking_part(failure: Failure) -> Failure:
    """Return a failure of which no cause is known with the check whose message says why."""
    unknown = failure.cause is None and not (failure.follows or failure.paraphrased)
    if not unknown or not failure.type or failure.message.startswith(OF_SYSTEM):
        return failure
    place = checking_place(failure) if gives_reason(failure.type, failure.message) else None
    if place is None or not (_is_known(place) or states_rule(failure.message)):
        return failure
    part = _part_of(place) or f"the package {place.package}"
    if place.of_engine:
        part = failure.origin.part or "the engine"
    return replace(failure, cause=_REFUSED, origin=FailureOrigin(part, _REFUSED, named=True))


def _part_of(place: CheckingPlace) -> str:
    """Return what a package is called in words; empty where only its name is known."""
    return innermost_part("", (Frame(f"{place.package}/{place.file}", place.function),)).part


def _is_known(place: CheckingPlace) -> bool:
    """Whether it is in a package of others whose messages are known to say what failed."""
    return not place.of_engine and place.package in packages_read()


def _passes_on(frame: Frame) -> bool:
    path = f"/{frame.path}"
    standard = any(map(path.__contains__, ("/lib/python3", "/lib64/python3"))) and PACKAGES not in path
    return standard or path.startswith("/<") or any(map(path.endswith, PASSED_ON))


def _package_of(frame: Frame) -> str:
    """Return the package of a file; empty for one that is in no package."""
    _, installed, inside = frame.path.rpartition(PACKAGES)
    parts = (inside if installed else frame.path).split("/")[:-1]
    if installed and parts:
        return parts[0]
    known = packages_read()
    return next((each for each in reversed(parts) if each in known), "")


def _place_of(error: EngineError) -> CheckingPlace:
    return CheckingPlace(error.package, error.file.rpartition("/")[2], error.function)
