"""The snapshot is rebuilt to the byte, from verbatim files whose hashes hold."""

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.hub.bundled import build_snapshot
from service.hub.bundled.repairs import repair
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import ConfigNotJson, InvalidModelId

SAMPLE = Path(__file__).parents[1] / "data" / "hub_snapshot"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "configs"))


def edit(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    index = folder / "INDEX.jsonl"
    rows = [json.loads(line) for line in index.read_text().splitlines()]
    change(rows)
    index.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def set_everywhere(folder: Path, **values: object) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row.update(values)

    edit(folder, change)


def snapshot_of(folder: Path) -> BundledSnapshot:
    return BundledSnapshot(lambda: build_snapshot.build(folder))


def test_the_order_of_the_index_and_the_place_of_the_folder_change_no_byte(folder: Path) -> None:
    edit(folder, lambda rows: rows.reverse())
    built = build_snapshot.build(folder)
    assert built == build_snapshot.build(SAMPLE)
    assert built[3:8] == bytes(5)  # no name of a file and no time in the gzip header (RFC 1952)


def test_the_command_writes_what_the_package_reads(tmp_path: Path) -> None:
    output = tmp_path / "out.json.gz"
    build_snapshot.main([str(SAMPLE), "--output", str(output)])
    written = BundledSnapshot(output.read_bytes)
    assert written.ids() == ("google/gemma-2b", "nvidia/Qwen3-235B-A22B-NVFP4", "Qwen/Qwen3-32B")


def test_the_sample_equals_what_is_bundled() -> None:
    for model_id in snapshot_of(SAMPLE).ids():
        assert snapshot_of(SAMPLE).get(model_id) == BundledSnapshot().get(model_id)


def test_a_reconstruction_is_left_out() -> None:
    rows = [json.loads(line) for line in (SAMPLE / "INDEX.jsonl").read_text().splitlines()]
    derived = [row["repo_id"] for row in rows if not row["verbatim"]]
    assert derived == ["01-ai/Yi-1.5-34B-Chat"]
    assert snapshot_of(SAMPLE).get(derived[0]) is None


def test_of_a_weights_index_only_the_total_is_kept() -> None:
    fetched = snapshot_of(SAMPLE).get("google/gemma-2b")
    assert fetched is not None
    # 2,506,172,416 parameters of bfloat16.
    assert (fetched.total_parameters, fetched.total_parameter_bytes) == (2506172416, 2 * 2506172416)
    assert b"weight_map" not in gzip.decompress(build_snapshot.build(SAMPLE))


def test_a_commit_is_a_revision_only_where_the_source_says_so() -> None:
    snapshot = snapshot_of(SAMPLE)
    pinned, copied = snapshot.get("Qwen/Qwen3-32B"), snapshot.get("google/gemma-2b")
    assert pinned is not None
    assert pinned.revision == "9216db5781bf21249d130ec9da846c4624c16137"
    assert copied is not None
    assert copied.revision is None
    assert "718cb189da9c5b2e55abe86f2eeffee9b4ae0dad" in copied.provenance


def test_a_revision_named_beside_another_commit_is_not_the_copys(folder: Path) -> None:
    set_everywhere(folder, commit="718cb189da9c5b2e55abe86f2eeffee9b4ae0dad")
    fetched = snapshot_of(folder).get("Qwen/Qwen3-32B")
    assert fetched is not None
    assert fetched.revision is None


def renamed(folder: Path, **values: int) -> Path:
    """Give Qwen3-32B's files, with other values, the id of a model whose copy is corrected."""
    path = folder / "Qwen/Qwen3-32B/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["repo_id"] == "Qwen/Qwen3-32B":
                row["repo_id"] = "Qwen/Qwen2.5-32B-Instruct"
                row["sha256"] = digest if row["file"] == "config.json" else row["sha256"]

    edit(folder, change)
    return folder


def test_a_value_that_a_third_party_changed_is_the_makers_again(folder: Path) -> None:
    original = json.loads((folder / "Qwen/Qwen3-32B/config.json").read_text())
    fetched = snapshot_of(renamed(folder)).get("Qwen/Qwen2.5-32B-Instruct")
    assert fetched is not None
    assert fetched.config == original | {"max_position_embeddings": 32768}
    assert "vllm/issues/12328" in fetched.provenance


def test_a_copy_that_needs_no_correction_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="needs no repair"):
        build_snapshot.build(renamed(folder, max_position_embeddings=32768))


def test_a_changed_file_is_refused(folder: Path) -> None:
    (folder / "google/gemma-2b/config.json").write_text("{}")
    with pytest.raises(ValueError, match="differs from its SHA-256"):
        build_snapshot.build(folder)


def test_a_path_out_of_the_folder_is_refused(folder: Path) -> None:
    edit(folder, lambda rows: rows[0].update(path="../../etc/passwd"))
    with pytest.raises(ValueError, match="outside the folder"):
        build_snapshot.build(folder)


def test_a_file_listed_twice_is_refused(folder: Path) -> None:
    edit(folder, lambda rows: rows.append(rows[0]))
    with pytest.raises(ValueError, match="twice"):
        build_snapshot.build(folder)


def test_two_ids_that_differ_by_case_are_refused(folder: Path) -> None:
    def doubled(rows: list[dict[str, Any]]) -> None:
        twin = next(row for row in rows if row["repo_id"] == "Qwen/Qwen3-32B")
        rows.append(twin | {"repo_id": "qwen/qwen3-32b"})

    edit(folder, doubled)
    with pytest.raises(ValueError, match="case alone"):
        build_snapshot.build(folder)


def test_a_model_without_a_config_is_refused(folder: Path) -> None:
    path = "nvidia/Qwen3-235B-A22B-NVFP4/config.json"
    edit(folder, lambda rows: rows.remove(next(row for row in rows if row["path"] == path)))
    with pytest.raises(ValueError, match=r"has no config\.json"):
        build_snapshot.build(folder)


def test_an_impossible_id_is_refused(folder: Path) -> None:
    edit(folder, lambda rows: rows[0].update(repo_id="../x"))
    with pytest.raises(InvalidModelId):
        build_snapshot.build(folder)


def test_a_fractional_total_is_refused(folder: Path) -> None:
    set_everywhere(folder, total_params=1.5)
    with pytest.raises(ValueError, match="not a whole number"):
        build_snapshot.build(folder)


def test_a_config_that_the_client_would_refuse_is_refused(folder: Path) -> None:
    empty = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"  # SHA-256 of "[]"
    config = folder / "google/gemma-2b/config.json"
    config.write_text("[]")

    def rehash(rows: list[dict[str, Any]]) -> None:
        next(row for row in rows if row["path"] == "google/gemma-2b/config.json")["sha256"] = empty

    edit(folder, rehash)
    with pytest.raises(ConfigNotJson):
        build_snapshot.build(folder)


def test_an_origin_that_nobody_can_visit_is_not_named(folder: Path) -> None:
    set_everywhere(folder, source="index id 17")
    fetched = snapshot_of(folder).get("google/gemma-2b")
    assert fetched is not None
    assert "index id 17" not in fetched.provenance


def test_a_trimmed_file_is_written_anew_with_its_source() -> None:
    config = {"hybrid_override_pattern": "ME*E"}
    trimmed = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    super_nvfp4 = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"

    written = repair(super_nvfp4, config, trimmed)

    assert written is not None
    section = json.loads(written.text)
    # NVIDIA's table: routed experts in NVFP4, shared ones and Mamba in FP8, attention and latents in 16 bits.
    algorithms = {name: layer["quant_algo"] for name, layer in section["quantized_layers"].items()}
    assert algorithms["backbone.layers.0.mixer.in_proj"] == "FP8"
    assert algorithms["backbone.layers.1.mixer.experts.0.up_proj"] == "NVFP4"
    assert algorithms["backbone.layers.3.mixer.shared_experts.down_proj"] == "FP8"
    assert not any(name.startswith("backbone.layers.2.") for name in algorithms)
    assert "docs.nvidia.com" in written.source
    assert repair("google/gemma-2b", config, trimmed) is None
    # A copy that is whole must not be replaced without a word.
    with pytest.raises(ValueError, match="needs no repair"):
        repair(super_nvfp4, config, {"producer": {"name": "modelopt"}, **trimmed})


def test_no_bundled_nemotron_leaves_its_quantization_unnamed() -> None:
    snapshot = BundledSnapshot()
    for model_id in snapshot.search("nvidia-nemotron-3 fp"):
        fetched = snapshot.get(model_id)
        assert fetched is not None
        section = fetched.quantization_config or {}
        assert section.get("quant_method") == "modelopt" or "producer" in section, model_id
