"""Renders the chart with Helm into the plain manifests of deploy/manifests (`make manifests`)."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "chart" / "dryserve"
RENDERED: Final = ROOT / "deploy" / "manifests"
NAME: Final = "dryserve"
MONITORED: Final = {"serviceMonitor": True, "prometheusRule": True, "dashboard": True}
CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "single.yaml": {"replicas": 1, "autoscaling": {"enabled": False}, "database": {"secretName": ""}},
    "replicated.yaml": {},
    "complete.yaml": {
        "monitoring": MONITORED,
        "worker": {"enabled": True},
        "autoscaling": {"waitingRequests": 4},
        "hub": {"tokenSecretName": "hub"},
        "imagePullSecrets": [{"name": "registry"}],
        "tokensSecretName": "dryserve-tokens",
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
            "monitoringFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
    },
}
"""Values of each rendered file."""
HEAD: Final = "# Rendered from deploy/chart/dryserve by `make manifests`; change the chart instead.\n"


class HelmMissing(RuntimeError):
    """Neither the program nor the library is installed."""


def rendered(values: Mapping[str, Any]) -> str:
    """Return the chart's manifests for some values.

    Raises:
        HelmMissing: neither `helm` nor the package helm-python-sdk is installed.
        RuntimeError: Helm refuses the chart or the values.
    """
    if (program := shutil.which("helm")) is not None:
        return _by_program(program, values)
    try:
        from helm_python import Chart  # noqa: PLC0415 - optional
    except ImportError:
        raise HelmMissing("install helm, or the Python package helm-python-sdk") from None
    with Chart.load(CHART) as chart:
        files: dict[str, str] = chart.render(dict(values), name=NAME, namespace=NAME)
    documents = (text.strip("\n") for name, text in sorted(files.items()) if name.endswith(".yaml"))
    return "".join(f"---\n{text.removeprefix('---').strip()}\n" for text in documents if text.strip())


def _by_program(program: str, values: Mapping[str, Any]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        words = (program, "template", NAME, str(CHART), "--namespace", NAME, "--values", file.name)
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main() -> None:
    """Write the rendered files."""
    RENDERED.mkdir(exist_ok=True)
    for name, values in CASES.items():
        (RENDERED / name).write_text(HEAD + rendered(values), "utf-8")
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
