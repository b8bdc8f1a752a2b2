"""Tells errors that end nothing, by what they say of themselves or by what came after them."""

from collections.abc import Iterable, Sequence
from typing import Final

from service.startup_log.errors.tracebacks import frames_above
from service.startup_log.text.lines import LogLine
from service.startup_log.text.platforms import WITHOUT_KERNELS, platform_of

_HARMLESS: Final = (
    *("This won't affect Ray", "This is unlikely to affect the main functionalities"),
    *("Cannot use FA version", "@pytest.mark.", "Error retrieving safetensors: ", "java.lang.", "java.util."),
    'JSONDecodeError("Expecting value", s, err.value) from None',
    *("NCCL WARN Call to shutdown failed", "problem when trying to write in your cache folder"),
    *("Failed to load AutoTokenizer chat template for ", "Failed to load AutoProcessor chat template for "),
)
"""What an error says of itself that ends nothing: Ray 2, src/ray/stats/metric_exporter.cc; WSL's driver;
vLLM 0.8.5 to 0.19.0, fa_utils.py get_flash_attn_version, and 0.14.0 to 0.33.0, transformers_utils/config.py
try_get_safetensors_metadata, which answer None then; a test's conditions; exceptions of Java;
the source of Python's reader of JSON; NCCL 2, misc/socket.cc ncclSocketShutdown, whose other side is gone;
vLLM 0.8.3 to 0.33.0, renderers/hf.py resolve_chat_template, which then looks for a template elsewhere;
transformers 4, utils/hub.py, which needs no cache where the model is in a folder."""


_OF_CPUINFO: Final = "JSONDecodeError: Expecting value: line 1 column 2 (char 1)"
"""py-cpuinfo, cpuinfo.py get_cpu_info, in the thread that reports how vLLM is used: of an engine that died
later it was not the reason."""
_OF_PROTOBUF: Final = "'MessageFactory' object has no attribute 'GetPrototype'"
"""protobuf 5 and later, message_factory.py, which has no such method: TensorFlow prints this, without a
traceback, for each of its messages while it is imported, and goes on."""
_OF_USAGE: Final = (
    *(
        "flags cannot be placed before plugin name",
        "rror: unknown shorthand flag: ",
        "rror: unknown flag: --",
    ),
    *('rror: unknown command "', 'rror: required flag(s) "', "rror: flag needs an argument: "),
)
"""kubectl, pkg/cmd/cmd.go HandlePluginCommand; spf13/pflag and spf13/cobra, of which kubectl, helm and oc are
made: the engine's own parser is Python's, which has other words."""
_DEAD: Final = ("EngineDeadError", "Fatal Python error: Aborted", "RuntimeError: cancelled")


_NOT_COMPILED: Final = tuple(
    f"Failed to import from vllm._C{sign} ModuleNotFoundError(" for sign in (" with", ":")
)
"""vLLM 0.6.3 to 0.33.0, _custom_ops.py and platforms/interface.py import_kernels: a warning."""
_NOT_THERE: Final = ("happens when checking CUDA platform", " platform is not available because")
_THERE: Final = (
    *(
        words.format(name)
        for words in ("Confirmed {} platform", "etected platform {}")
        for name in ("ROCm", "rocm", "XPU", "xpu", "CPU", "cpu", "TPU", "tpu", "HPU", "hpu")
    ),
    "rocm/vllm",
    "Platform plugin hpu is activated",
    "Platform plugin ascend is activated",
)
"""vLLM 0.8.0 to 0.33.0, platforms/__init__.py: what it logs of platforms; AMD's image."""


def harmless(raised: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of exceptions that say of themselves that they end nothing."""
    raised = list(raised)
    of_usage = {at for at in raised if _OF_CPUINFO in lines[at].text}
    if of_usage and not any(map(_died, lines)):
        of_usage = set()
    of_protobuf = {at for at in raised if _OF_PROTOBUF in lines[at].text and not frames_above(at, lines)}
    return {at for at in raised if is_harmless(lines[at])} | of_usage | of_protobuf


def _died(line: LogLine) -> bool:
    """Whether a line says that the engine, which had started, died."""
    return any(map(line.text.__contains__, _DEAD))


def of_commands(raised: Iterable[int], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of what tools of Kubernetes say of how they were called.

    Beside a container that ended it is not the reason.
    """
    return {at for at in raised if any(map(lines[at].text.__contains__, _OF_USAGE))}


def is_harmless(line: LogLine) -> bool:
    """Whether an error says of itself that it ends nothing."""
    return any(map(line.text.__contains__, _HARMLESS))


def of_other_platforms(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of lines which say that a platform is not there, beside one that is."""
    said = [at for at, line in enumerate(lines) if any(map(line.text.__contains__, _NOT_THERE))]
    found = said and any(any(map(line.text.__contains__, _THERE)) for line in lines)
    return {*(said if found else ()), *_without_kernels(lines)}


def _without_kernels(lines: Sequence[LogLine]) -> Sequence[int]:
    """Return the positions of what a build says of compiled kernels that its platform does not have."""
    said = [at for at, line in enumerate(lines) if any(map(line.text.__contains__, _NOT_COMPILED))]
    return said if said and platform_of(lines) in WITHOUT_KERNELS else ()
