"""Container engines: builds an image and runs a command in it, with whichever engine this machine has."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BASE: Final = os.environ.get("PYTHON_IMAGE", "python:3.13-slim")
"""Image that the build starts from; a mirror's or a local one can be named."""
UNNESTED: Final = ("--isolation", "chroot")
"""Of buildah and podman: without namespaces of its own, so that a build also works inside of a container."""
BUILD_SECONDS: Final = 900
RUN_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class ContainerEngine:
    """One engine of this machine."""

    name: str

    def has(self, image: str) -> bool:
        """Whether an image is here, or can be fetched."""
        return (
            not self._call("inspect", "--type", "image", image).returncode
            or not self._call("pull", image).returncode
        )

    def build(self, tag: str, context: Path = ROOT) -> str:
        """Build the image of a folder and return what was printed.

        Raises:
            AssertionError: the build failed; the message holds the end of what was printed.
        """
        words = ("--tag", tag, "--build-arg", f"PYTHON_IMAGE={BASE}", "--network", "host", str(context))
        # The form of Docker, which has health checks.
        form = () if self.name == "docker" else (*UNNESTED, "--format", "docker", "--layers")
        done = self._call("build", *form, *words)
        printed = done.stdout + done.stderr
        assert done.returncode == 0, printed[-4000:]
        return printed

    def run(self, image: str, *command: str) -> str:
        """Run a command in place of the image's own as the image's user, and return what it printed."""
        if self.name != "buildah":
            closed = ("--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
            alone = ("--network", "none", "--entrypoint", command[0])
            done = self._call("run", *closed, *alone, image, *command[1:])
        else:
            container = self._call("from", "--pull-never", image).stdout.strip()
            done = self._call("run", *UNNESTED, "--user", "10001:10001", container, "--", *command)
            self._call("rm", container)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def remove(self, image: str) -> None:
        """Remove an image."""
        self._call("rmi", image)

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        seconds = BUILD_SECONDS if words[0] in {"build", "pull"} else RUN_SECONDS
        return subprocess.run(  # noqa: S603 - an engine of this machine
            (self.name, *words), capture_output=True, text=True, timeout=seconds, check=False
        )


def engine_of_this_machine() -> ContainerEngine | None:
    """Return an engine that works here; None without one."""
    for name, asked in (("docker", "version"), ("podman", "info"), ("buildah", "version")):
        if shutil.which(name) is None:
            continue
        try:
            works = subprocess.run((name, asked), capture_output=True, timeout=20, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            continue
        if works.returncode == 0:
            return ContainerEngine(name)
    return None
