"""Writes the bundled snapshot of a folder of configs: `python -m service.hub.bundled.build_snapshot FOLDER`.

FOLDER holds `INDEX.jsonl` with one JSON object per line, one for each file: `repo_id`, `file`, `path` (within
FOLDER), `sha256`, `verbatim`, `source`, `licence_of_source` and, where known, `commit`, `total_params`,
`total_params_source`, `total_tensor_bytes`, `bytes_source`. Only verbatim files are bundled, except those
that `repairs.toml` replaces. Of a weights index only the total size is bundled.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.hub.bundled.repairs import Repair, corrected, repair
from service.hub.bundled.snapshot import PACKAGE_DATA
from service.hub.formats.json_object import parse_object
from service.hub.limits import DEFAULT_LIMITS
from service.hub.model_files.fetched_config import CONFIG, HF_QUANT_CONFIG, POOLING, SENTENCES, WEIGHTS_INDEX
from service.hub.model_files.model_ids import check_model_id, commit_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

BUNDLED = (CONFIG, HF_QUANT_CONFIG, POOLING, SENTENCES)
"""Files of a model that are bundled whole."""
_NAMED_ORIGINS = ("github ", "pypi ", "byte-exact")
_REVISION_MARK = "HF revision"


def build(folder: Path) -> bytes:
    """Return the compressed snapshot of a folder. The same folder always gives the same bytes.

    Raises:
        ValueError: a path points outside the folder, a file differs from its SHA-256 or is listed twice, or a
            model has no config.json.
        HubError: an id or a file is invalid in a way that the Hub client also rejects.
    """
    rows: dict[str, dict[str, Row]] = defaultdict(dict)
    for line in (folder / "INDEX.jsonl").read_text(encoding="utf-8").splitlines():
        row: Row = json.loads(line)
        if not row["verbatim"]:
            continue
        if row["file"] in rows[row["repo_id"]]:
            raise ValueError(f"{row['repo_id']} lists {row['file']} twice")
        rows[row["repo_id"]][row["file"]] = row
    models = {model_id: _model(folder, model_id, files) for model_id, files in rows.items()}
    if len({model_id.lower() for model_id in models}) < len(models):
        raise ValueError("two ids differ by case alone")
    text = json.dumps({"models": models}, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def _model(folder: Path, model_id: str, rows: Mapping[str, Row]) -> dict[str, Any]:
    check_model_id(model_id)
    if CONFIG not in rows:
        raise ValueError(f"{model_id} has no {CONFIG}")
    config = rows[CONFIG]
    found = {name: _file(folder, rows[name]) for name in BUNDLED if name in rows}
    return {
        "revision": _revision(config),
        "files": _repaired(model_id, found),
        "total_parameters": _figure(config.get("total_params"), config.get("total_params_source")),
        "total_parameter_bytes": _total_bytes(folder, rows),
    }


def _repaired(model_id: str, found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    config = json.loads(found[CONFIG]["text"])
    replaced = _replaced(found, CONFIG, corrected(model_id, config))
    if HF_QUANT_CONFIG not in found:
        return replaced
    stored = json.loads(found[HF_QUANT_CONFIG]["text"])
    return _replaced(replaced, HF_QUANT_CONFIG, repair(model_id, config, stored))


def _replaced(
    found: dict[str, dict[str, Any]], name: str, repaired: Repair | None
) -> dict[str, dict[str, Any]]:
    if repaired is None:
        return found
    replacement = {
        "text": repaired.text,
        "sha256": hashlib.sha256(repaired.text.encode()).hexdigest(),
        "source": repaired.source,
        "commit": None,
        "licence_of_source": found[name]["licence_of_source"],
    }
    return {**found, name: replacement}


def _file(folder: Path, row: Row) -> dict[str, Any]:
    content = _read(folder, row)
    # The Hub client applies the same limits, so a file that it would reject is not bundled.
    parse_object(content, model_id=row["repo_id"], file=row["file"], depth=DEFAULT_LIMITS.depth)
    return {
        "text": content.decode("utf-8"),
        "sha256": row["sha256"],
        "source": _source(row),
        "commit": commit_or_none(row.get("commit")),
        "licence_of_source": row["licence_of_source"],
    }


def _read(folder: Path, row: Row) -> bytes:
    path = (folder / row["path"]).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{row['path']} is outside the folder")
    content: bytes = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise ValueError(f"{row['path']} differs from its SHA-256")
    return content


def _source(row: Row) -> str:
    # Only origins that a reader can look up are named.
    source: str = row["source"]
    return source if source.startswith(_NAMED_ORIGINS) else "a public repository, not named"


def _revision(config: Row) -> str | None:
    # `commit` belongs to the source of the file, unless the remarks say that it is the model's revision.
    commit = commit_or_none(config.get("commit"))
    remarks = " ".join(config.get(key, "") for key in ("notes", "sha256_verified", "bytes_source"))
    return commit if commit and _REVISION_MARK in remarks and commit in remarks else None


def _total_bytes(folder: Path, rows: Mapping[str, Row]) -> dict[str, Any] | None:
    if WEIGHTS_INDEX not in rows:
        return _figure(rows[CONFIG].get("total_tensor_bytes"), rows[CONFIG].get("bytes_source"))
    row = rows[WEIGHTS_INDEX]
    total = json.loads(_read(folder, row))["metadata"]["total_size"]
    return _figure(total, f"{WEIGHTS_INDEX} ({row['sha256']}), {_source(row)}")


def _figure(value: float | None, source: str | None) -> dict[str, Any] | None:
    if value is None or source is None:
        return None
    if int(value) != value:  # some tools write whole bytes as a float
        raise ValueError(f"{value} is not a whole number ({source})")
    return {"value": int(value), "source": source}


def main(arguments: Sequence[str] | None = None) -> None:
    """Build the snapshot and write it into the package, or to the path options by `--output`."""
    parser = argparse.ArgumentParser(
        prog="service.hub.bundled.build_snapshot", description="Write the bundled snapshot."
    )
    parser.add_argument("folder", type=Path, help="folder that holds INDEX.jsonl")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name(PACKAGE_DATA))
    options = parser.parse_args(arguments)
    options.output.write_bytes(build(options.folder))


if __name__ == "__main__":
    main()
