"""Models of GGUF files by their headers. `make oracle-llamacpp` compares real models with their configs."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import cli
from service.hub.formats.gguf import HeaderTruncated, InvalidHeader, read_gguf_header
from service.llama_cpp.gguf_model import gguf_model
from service.llama_cpp.model_layers import Heads, NotConverted

F16, U32, BOOL, TEXT, LIST = 1, 4, 7, 8, 9
GEMMA4: Mapping[str, object] = {
    "general.architecture": "gemma4",
    "gemma4.block_count": 6,
    "gemma4.context_length": 262_144,
    "gemma4.embedding_length": 5376,
    "gemma4.attention.head_count": 32,
    "gemma4.attention.head_count_kv": [16, 16, 16, 16, 16, 4],
    "gemma4.attention.key_length": 512,
    "gemma4.attention.value_length": 512,
    "gemma4.attention.key_length_swa": 256,
    "gemma4.attention.value_length_swa": 256,
    "gemma4.attention.sliding_window": 1024,
    "gemma4.attention.sliding_window_pattern": [True] * 5 + [False],
    "tokenizer.ggml.tokens": ["a", "b"],
}
TENSORS = {"token_embd.weight": (5376, 512), "blk.0.attn_q.weight": (64, 32), "blk.5.attn_q.weight": (64, 64)}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(value: object) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", TEXT) + text(value)
    if isinstance(value, list):
        kind = TEXT if isinstance(value[0], str) else BOOL if isinstance(value[0], bool) else U32
        body = b"".join(
            text(each) if kind == TEXT else struct.pack("<?" if kind == BOOL else "<I", each)
            for each in value
        )
        return struct.pack("<IIQ", LIST, kind, len(value)) + body
    return struct.pack("<II", U32, value)


def header(values: Mapping[str, object]) -> bytes:
    entries = b"".join(text(name) + entry(value) for name, value in values.items())
    tensors = b"".join(
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F16, 0)
        for name, shape in TENSORS.items()
    )
    return b"GGUF" + struct.pack("<IQQ", 3, len(TENSORS), len(values)) + entries + tensors


def test_layers_windows_and_weights() -> None:
    read = read_gguf_header(header(GEMMA4))
    found = gguf_model(read.values, read.tensor_bytes)
    assert [layer.is_window for layer in found.model.layers] == [True] * 5 + [False]
    assert (found.model.layers[0].keys, found.model.layers[5].keys) == (Heads(16, 256), Heads(4, 512))
    assert (found.model.window, found.model.context_length, found.model.widest_values) == (
        1024,
        262_144,
        4096,
    )
    assert found.layer_bytes == (64 * 32 * 2, 0, 0, 0, 0, 64 * 64 * 2)
    assert found.output_bytes == 5376 * 512 * 2
    assert "tokenizer.ggml.tokens" not in read.values


def test_every_beginning_of_a_header_is_too_short() -> None:
    whole = header(GEMMA4)
    for size in range(0, len(whole), 7):
        with pytest.raises((HeaderTruncated, InvalidHeader)):
            read_gguf_header(whole[:size])


def test_a_header_without_an_entry() -> None:
    values = {name: value for name, value in GEMMA4.items() if not name.endswith("block_count")}
    read = read_gguf_header(header(values))
    with pytest.raises(NotConverted, match="key not found in model"):
        gguf_model(read.values, read.tensor_bytes)


def test_a_file_on_the_command_line(tmp_path: Path) -> None:
    """One global layer of 4 heads: 8,192 bytes a cell; five of windows."""
    file = tmp_path / "small.gguf"
    file.write_bytes(header(GEMMA4))
    words = [
        "plan",
        str(file),
        "--engine",
        "llama.cpp",
        "--gpu",
        "t4-16gb",
        "--engine-flags",
        "-c 4096 -np 1",
    ]
    found = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert found.exit_code == 0, found.output
    assert f'"cache_bytes":[{4096 * 8192 + 5 * 1536 * 16 * 256 * 2 * 2}]' in found.output
    assert f"-m {file}" in found.output
