"""The published commands of the repository's collection, written as a shell and a container take them.

The sizes beside each command were written down by whoever gathered it, not by this reader.
"""

import shlex
from collections.abc import Mapping
from typing import Any

from service.launch_command.command_reading import CommandReading
from service.launch_command.read_commands import read_command
from tests.advice.rows import KEPT, read_rows

SIZES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "dcp": "decode_context_parallel_size",
}
AHEAD = frozenset({"r2386", "r2387"})
"""Commands whose page names vLLM 0.27.0, and a parser (ling3) that 0.28.0 is the first release to have."""


def words_of(row: Mapping[str, Any]) -> list[str]:
    """Return the words behind the model; the source joins two words where it means two arguments."""
    if not isinstance(row["flags"], list):
        return []
    halves = [word.split(" ", 1) if word.startswith("--max-model-len ") else [word] for word in row["flags"]]
    return [word for each in halves for word in each]


def variables_of(row: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in (row.get("env") or {}).items()}


def as_line(row: Mapping[str, Any]) -> str:
    variables = "".join(f"{name}={shlex.quote(value)} " for name, value in variables_of(row).items())
    return f"{variables}vllm serve {shlex.join([row['model'], *words_of(row)])}"


def as_script(row: Mapping[str, Any]) -> str:
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables_of(row).items())
    words = " \\\n  ".join(map(shlex.quote, words_of(row)))
    head = f"#!/bin/bash\n{variables}MODEL={row['model']}\n"
    return f'{head}exec vllm serve "$MODEL" \\\n  {words} 2>&1 | tee log\n'


def as_container(row: Mapping[str, Any]) -> str:
    variables = [part for name, value in variables_of(row).items() for part in ("-e", f"{name}={value}")]
    image = f"vllm/vllm-openai:v{row['version']}"
    words = [*variables, image, "--model", row["model"], *words_of(row)]
    return f"docker run --rm -it --gpus all --ipc=host -p 8000:8000 {shlex.join(words)}"


def facts_of(reading: CommandReading) -> dict[str, Any]:
    launch = reading.launch
    sizes = {short: getattr(launch.flag(name), "value", 1) for short, name in SIZES.items()}
    experts = getattr(launch.flag("enable_expert_parallel"), "value", False)
    return {"model": launch.model, "ep": experts, **sizes}


def published() -> list[Mapping[str, Any]]:
    return [row for row in read_rows(KEPT, "rows.jsonl") if words_of(row)]


def test_every_published_command_has_the_sizes_that_were_noted_beside_it() -> None:
    rows = published()
    assert len(rows) > 1_000
    wrong = []
    for row in rows:
        expected = {
            "model": row["model"],
            "ep": bool(row.get("ep")),
            **{short: row.get(short) or 1 for short in SIZES},
        }
        for shape in (as_line, as_script, as_container):
            reading = read_command(shape(row), row["version"])
            refused = reading.unknown or bool(reading.faults) != (row["id"] in AHEAD)
            if facts_of(reading) != expected or refused:
                wrong.append((row["id"], shape.__name__, facts_of(reading), expected))
    assert wrong == []


def test_the_release_is_that_of_the_image() -> None:
    for row in published()[::25]:
        release = read_command(as_container(row)).launch.release
        assert release.version == row["version"]


def test_every_flag_of_every_published_command_is_in_one_list() -> None:
    for row in published():
        reading = read_command(as_line(row), row["version"])
        flags = reading.flags
        listed = {*flags.used, *(flag.name for flag in (*flags.no_effect, *flags.not_modelled))}
        assert {flag.name for flag in reading.launch.flags} <= {name.partition(".")[0] for name in listed}
        assert not any("nothing is known" in flag.reason for flag in flags.not_modelled)
