"""Record what a release allocates for LoRA adapters, and compare with what is stored.

``python -m tests.oracle.adapters 0.32.0`` installs the release below ``.oracle`` as ``make oracle`` does,
asks its own LoRA manager (``adapters_driver.py``) about the models and flags of
``tests/data/memory/adapters.json``, and exits with 1 where a figure differs; ``--write`` stores the answers.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from service.hub.bundled.snapshot import BundledSnapshot
from tests.oracle.environment import InstallationFailed, install, prepare

STORED: Final = Path(__file__).parents[1] / "data" / "memory" / "adapters.json"
DRIVER: Final = Path(__file__).with_name("adapters_driver.py")
MODELS_IMPORT: Final = ("einops",)
"""What building a model imports beside what planning a cache does."""
ASKED: Final = ("model", "release", "tensor_parallel_size", "enable_expert_parallel", "flags")

Row = dict[str, Any]


def question(row: Mapping[str, Any], snapshot: BundledSnapshot) -> Row:
    """Return what the driver needs of a row: the model's config, without its quantization."""
    fetched = snapshot.get(row["model"])
    if fetched is None:
        raise LookupError(row["model"])
    config = {name: value for name, value in fetched.config.items() if name != "quantization_config"}
    return {**{name: row[name] for name in ASKED}, "config": config}


def answers(python: Path, questions: Iterable[Row]) -> Iterator[Row]:
    """Yield the release's answer to each question."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "questions.jsonl"), Path(folder, "answers.jsonl")
        source.write_text("".join(json.dumps(each) + "\n" for each in questions), "utf-8")
        subprocess.run((python, DRIVER, source, target), check=True)  # noqa: S603 - the environment we made
        yield from map(json.loads, target.read_text("utf-8").splitlines())


def main() -> int:
    """Ask, print and compare; with ``--write`` store."""
    parser = argparse.ArgumentParser(prog="tests.oracle.adapters", description=__doc__)
    parser.add_argument("release", type=Version)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    stored: list[Row] = json.loads(STORED.read_text("utf-8"))
    asked = [row for row in stored if row["release"] == str(options.release)] or [
        {**row, "release": str(options.release)} for row in stored
    ]
    try:
        python = prepare(options.release, print)
        install(python, *MODELS_IMPORT)
    except InstallationFailed as failure:
        print(failure)  # noqa: T201 - a command
        return 2
    snapshot = BundledSnapshot()
    differing, fresh = 0, {}
    for row, answer in zip(asked, answers(python, (question(each, snapshot) for each in asked)), strict=True):
        title = f"{row['model']} tp{row['tensor_parallel_size']} {row['flags']}"
        if "refused" in answer:
            print(f"not asked: {title}: {answer['refused']}")  # noqa: T201 - a command
            continue
        same = row.get("bytes") == answer["bytes"]
        differing += not same
        fresh[title] = {**{name: row[name] for name in ASKED}, **answer}
        print(f"{'same' if same else 'DIFFERS'}: {title}: {answer['bytes']:,}")  # noqa: T201 - a command
    if options.write:
        rows = [
            fresh.get(f"{row['model']} tp{row['tensor_parallel_size']} {row['flags']}", row) for row in stored
        ]
        STORED.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
