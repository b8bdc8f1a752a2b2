"""Write what errors say: ``python -m tests.startup_log.engine_errors vllm==0.19.0=PATH/TO/vllm``.

The output is service/startup_log/catalogue/engine_errors.json.gz for vLLM, and library_errors.json.gz
for packages that it uses: for each exception that the given releases raise with words of their own, the
fixed parts of its message, its class, its file and function, and the first and last of the given releases
that have it. With ``--requests`` it is request_errors.json.gz: the messages of vLLM that answer a request.
Elsewhere these are left out, since they end no engine; of libraries what a start does not reach.
What the files have of other packages and releases stays.
"""

import argparse
import ast
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from packaging.version import Version

from service.startup_log.catalogue.engine_errors import ENGINE, FILE, LEAST_WORDS, LIBRARIES, REQUESTS

Row: TypeAlias = tuple[str, str, str, tuple[str, ...]]
OF_REQUESTS: Final = (
    *("benchmarks/", "third_party/", "examples/", "sampling_params", "pooling_params", "entrypoints/openai/"),
    *("entrypoints/pooling/", "entrypoints/serve/", "entrypoints/generate/", "entrypoints/chat_utils"),
    *("entrypoints/anthropic/", "entrypoints/mcp/", "entrypoints/scale_out/", "entrypoints/score_utils"),
    *("parser/", "reasoning/", "tool_parsers/", "tokenizers/deepseek", "renderers/", "inputs/", "snapshot/"),
    *("v1/structured_output/", "multimodal/media/", "multimodal/video", "multimodal/image"),
    *("multimodal/audio", "v1/sample/", "distributed/weight_transfer/", "logits_process"),
)
"""Beginnings of the paths of files whose errors answer a request, or that no start reaches."""
OF_NO_REQUEST: Final = ("third_party/", "examples/", "snapshot/", "benchmarks/lib/")
"""Those of them that neither a request nor `vllm bench` reaches."""
OF_PYTHON: Final = (
    *("has no attribute", "is not defined", "unexpected keyword argument", "positional argument"),
    *("is not callable", "cannot be imported", "cannot import name", "No module named"),
    *("is not iterable", "not subscriptable"),
)
"""Words of Python's own errors, which some classes repeat; they name no place."""
LEAST_OF_LIBRARIES: Final = 4
"""The same as `LEAST_WORDS` for libraries, whose messages are more, and more alike."""
LEAST_IN_ALL: Final = 5
"""Words of all parts at least of a message of a library, one of which has as many as the engine's must."""
REACHED: Final[Mapping[str, tuple[str, ...]]] = {
    "vllm": ("",),
    "transformers": (
        *("tokenization_", "configuration_", "processing_", "image_processing_", "video_processing_"),
        *("feature_extraction_", "modeling_utils", "modeling_rope", "modeling_gguf", "dynamic_module_utils"),
        *("utils/", "quantizers/", "models/auto/", "convert_slow_tokenizer", "modelcard", "core_model"),
    ),
    "huggingface_hub": ("",),
    "safetensors": ("",),
    "triton": ("backends/", "compiler/", "language/", "runtime/"),
    "flashinfer": (
        *("jit/", "attention", "decode", "prefill", "mla", "fused_moe/core", "gemm/", "comm/", "sampling"),
        *("utils", "autotuner", "compilation_context", "artifacts", "page", "rope", "norm", "cascade"),
    ),
    "compressed_tensors": ("",),
    "gguf": ("",),
    "torch": (
        *("_inductor/", "cuda/", "distributed/distributed_c10d", "distributed/rendezvous"),
        *("utils/cpp_extension", "serialization", "_utils", "_library/", "_functorch/"),
    ),
    "ray": ("_private/", "util/placement_group", "exceptions", "_raylet"),
    "runai_model_streamer": ("",),
    "tensorizer": ("",),
    "mistral_common": ("",),
    "xgrammar": ("",),
    "lmformatenforcer": ("",),
    "outlines_core": ("",),
    "peft": ("config", "peft_model", "mapping", "utils/", "tuners/lora/", "tuners/tuners_utils"),
    "bitsandbytes": ("",),
    "modelscope": ("hub/", "utils/"),
    "fastsafetensors": ("",),
    "lmcache": ("integration/vllm/", "v1/", "config", "utils", "observability"),
    "tvm_ffi": ("",),
    **dict.fromkeys(
        ("vllm_ascend", "vllm_gaudi", "vllm_kunlun", "vllm_metal", "vllm_metax", "vllm_rbln", "vllm_spyre"),
        ("",),
    ),
    "tpu_inference": (
        *("core/", "distributed/", "executors/", "layers/", "models/", "offload/", "platforms/", "runner/"),
        *("worker/", "envs", "utils", "env_override", "kernels/ragged_paged_attention/"),
    ),
    "vllm_omni": (
        *("engine/", "entrypoints/cli/", "entrypoints/omni", "entrypoints/async", "config/", "core/"),
        *("distributed/", "platforms/", "worker", "lora", "quantization", "transformers_utils"),
        *("diffusion/data", "diffusion/worker", "diffusion/executor", "diffusion/model_loader"),
        *("diffusion/distributed", "diffusion/attention", "diffusion/diffusion_engine"),
        *("diffusion/vllm_config", "diffusion/config", "model_executor/stage"),
    ),
}
"""Beginnings of the paths of files that a start reaches, by package."""


def errors_of(package: Path, *, requests: bool = False) -> Iterator[Row]:
    """Yield class, file, function and the parts of the message of every raise and assert of a package.

    ``requests``: those that answer a request, instead of all others.
    """
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package).as_posix()
        answers = package.name == ENGINE and file.startswith(OF_REQUESTS)
        if requests and file.startswith(OF_NO_REQUEST):
            continue
        if file.startswith(REACHED[package.name]) and answers is requests:
            yield from _in(ast.parse(path.read_text("utf-8")), file, "")


def _in(node: ast.AST, file: str, function: str) -> Iterator[Row]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and child.exc.args:
            raised = child.exc.func
            name = raised.attr if isinstance(raised, ast.Attribute) else getattr(raised, "id", "")
            yield name, file, inside, _parts(child.exc.args[0])
        elif isinstance(child, ast.Assert) and child.msg is not None:
            yield "AssertionError", file, inside, _parts(child.msg)
        yield from _in(child, file, inside)


def _parts(message: ast.AST) -> tuple[str, ...]:
    """Return the fixed parts of a message's first line."""
    first = "".join(_pieces(message)).split("\n", 1)[0]
    return tuple(part for part in (" ".join(each.split(" ")) for each in first.split("\0")) if part)


def _pieces(message: ast.AST) -> Iterator[str]:
    """Yield the parts of a message, with a NUL for each value."""
    match message:
        case ast.Constant(value=str(words)):
            yield words
        case ast.JoinedStr(values=values):
            for each in values:
                yield from _pieces(each)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _pieces(left)
            yield from _pieces(right)
        case _:
            yield "\0"


def _is_distinct(row: Row, package: str) -> bool:
    """Whether a message has so many words of its own that no other is taken for it."""
    words = [len(part.split()) for part in row[3]]
    longest = max(words, default=0)
    if package == ENGINE:
        return longest >= LEAST_WORDS
    return longest >= LEAST_OF_LIBRARIES or (longest >= LEAST_WORDS and sum(words) >= LEAST_IN_ALL)


def _written(target: Path) -> Iterator[tuple[str, Row, tuple[Version, Version]]]:
    """Yield the package, the row and the releases of each error that a file has."""
    for type_name, file, function, first, last, parts in json.loads(gzip.decompress(target.read_bytes())):
        package, _, path = file.partition("/") if target == LIBRARIES else (ENGINE, "", file)
        yield package, (type_name, path, function, tuple(parts)), (Version(first), Version(last))


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--requests", action="store_true")
    given = parser.parse_args()
    found: dict[tuple[str, Row], list[Version]] = {}
    for name, _, rest in (each.partition("==") for each in given.releases):
        release, _, package = rest.partition("=")
        for row in errors_of(Path(package), requests=given.requests):
            if _is_distinct(row, name) and not any(each in part for each in OF_PYTHON for part in row[3]):
                found.setdefault((name, row), []).append(Version(release))
    of_engine = {name for name, _ in found} == {ENGINE}
    target = REQUESTS if given.requests else FILE if of_engine else LIBRARIES
    for name, row, releases in _written(target):
        found.setdefault((name, row), []).extend(releases)
    rows = [
        [
            *(row[0], row[1] if name == ENGINE else f"{name}/{row[1]}", row[2]),
            *(str(min(releases)), str(max(releases)), list(row[3])),
        ]
        for (name, row), releases in sorted(found.items())
    ]
    content = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    target.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
