"""Asks llama.cpp's own library for the caches of random contexts, and compares its lines with ours.

    python -m tests.oracle.llama_cpp FOLDER [CONTEXTS] [SEED]

FOLDER receives the source (the sdist of llama-cpp-python from PyPI), its build and the models' headers; cmake
and a compiler are needed. Nothing is allocated and no weights are read.
"""

import json
import random
import sys
import tarfile
import venv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any, Final

from rich.console import Console

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engine_plans.engine_plan import EngineRefused
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.formats.gguf import MOST_HEADER_BYTES, GgufHeader, read_gguf_header
from service.llama_cpp.builds import build_named
from service.llama_cpp.device_layout import layer_split
from service.llama_cpp.gguf_model import gguf_model
from service.llama_cpp.largest_context import cache_demand
from service.llama_cpp.log_lines import CacheLog
from service.llama_cpp.model_layers import LlamaModel, llama_model
from service.llama_cpp.server_flags import FlashAttention, ServerFlags
from tests.llama_cpp.test_published_logs import GEMMA_3N

CONSOLE: Final = Console(markup=False, highlight=False, soft_wrap=True)
PACKAGE: Final = "llama-cpp-python==0.3.36"
BUNDLED: Final = {
    "llama": "meta-llama/Llama-3.1-8B",
    "gemma3": "google/gemma-3-27b-it",
    "gemma4": "google/gemma-4-31B-it",
    "gemma4_shared": "google/gemma-4-E4B-it",
    "gpt_oss": "openai/gpt-oss-20b",
    "mla": "deepseek-ai/DeepSeek-V2-Lite",
    "sparse_mla": "deepseek-ai/DeepSeek-V3.2",
    "gated_delta_net": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "short_convolutions": "LiquidAI/LFM2-1.2B",
}
MAMBA_2: Final = {
    "architectures": ["Mamba2ForCausalLM"],
    "model_type": "mamba2",
    "num_hidden_layers": 24,
    "hidden_size": 768,
    "num_heads": 24,
    "head_dim": 64,
    "n_groups": 1,
    "state_size": 128,
    "conv_kernel": 4,
    "expand": 2,
    "vocab_size": 50288,
}
TYPES: Final = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
COMPARED: Final = ("llama_kv_cache", "llama_memory_recurrent")
UNCOMPARED: Final = ("buffer size", "attn_rot", "padding V cache", "forced", "DSV4")
"""Words of lines that do not state a size, or state that of memory which was not allocated."""


def configs() -> dict[str, Mapping[str, Any]]:
    """Return the configs of all models."""
    found: dict[str, Mapping[str, Any]] = {"gemma3n": GEMMA_3N, "mamba2": MAMBA_2}
    for name, model_id in BUNDLED.items():
        fetched = BundledSnapshot().get(model_id)
        if fetched is not None:
            found[name] = fetched.config
    return found


def build_probe(folder: Path) -> Path:
    """Build the library and the probe, and write the models' headers, where they are missing."""
    source, build, probe = folder / "source", folder / "build", folder / "probe"
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        run([python, "-m", "pip", "install", "-q", "gguf", "numpy"], check=True)
    if not source.exists():
        pip = (python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-python")
        run((*pip, PACKAGE, "-d", folder), check=True)
        with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")
        next(folder.glob("llama_cpp_python-*/vendor/llama.cpp")).rename(source)
    if not list(build.glob("bin/libllama.so*")):
        flags = ["-DBUILD_SHARED_LIBS=ON", "-DLLAMA_CURL=OFF", "-DCMAKE_BUILD_TYPE=Release"]
        run(["cmake", "-S", source, "-B", build, *flags], check=True)
        run(["cmake", "--build", build, "--target", "llama", "-j2"], check=True)
    if not probe.exists():
        includes = [f"-I{source / each}" for each in ("include", "ggml/include")]
        libraries = [f"-L{build / 'bin'}", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{build / 'bin'}"]
        code = Path(__file__).with_name("probe.cpp")
        run(["g++", "-O1", "-std=c++17", code, *includes, *libraries, "-o", probe], check=True)
    if any(not (folder / f"{name}.gguf").exists() for name in configs()):
        writer = Path(__file__).with_name("sparse_gguf.py")
        document = json.dumps(configs(), default=dict)
        run([python, writer, folder], input=document, text=True, check=True)
    return probe


def draw(chance: random.Random) -> ServerFlags:
    """Return random flags."""
    kind = chance.choice(TYPES)
    return ServerFlags(
        ctx_size=chance.choice((0, 17, 512, 1000, 4096, 8192, 33_333, 131_072, chance.randint(17, 300_000))),
        parallel=chance.choice((1, 1, 2, 3, 4, 8, 17)),
        cache_type_k=kind,
        cache_type_v=kind if chance.random() < 0.7 else chance.choice(TYPES),
        flash_attn=chance.choice(tuple(FlashAttention)),
        swa_full=chance.random() < 0.25,
        kv_unified=chance.random() < 0.5,
        batch_size=chance.choice((512, 2048, 4096)),
        ubatch_size=chance.choice((64, 512, 512, 1024, 2048)),
        draft_max=chance.choice((0, 0, 0, 2)),
    )


def asked(flags: ServerFlags) -> str:
    """Return flags as a line for the probe."""
    return (
        f"ctx={flags.ctx_size} np={flags.parallel} b={flags.batch_size} ub={flags.ubatch_size} "
        f"ctk={flags.cache_type_k} ctv={flags.cache_type_v} fa={flags.flash_attn} full={int(flags.swa_full)} "
        f"unified={int(bool(flags.kv_unified))} rs={flags.draft_max}"
    )


def ours(model: LlamaModel, flags: ServerFlags) -> tuple[str, list[str]]:
    """Return the outcome and the lines that we expect."""
    build, layout = build_named(None)[1], layer_split(len(model.layers), (1,), 0)
    try:
        demand = cache_demand(model, flags, build, layout)
    except EngineRefused as refusal:
        return "refused", [str(refusal)]
    context = demand.context
    sizes = [f"n_{name} = {getattr(context, f'n_{name}')}" for name in ("ctx", "ctx_seq", "batch", "ubatch")]
    lines = CacheLog(model, demand, layout, build).lines()
    return "ok", sizes + [line for line in lines if "buffer size" not in line]


def theirs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the outcome and the lines of each context."""
    lines: list[str] = []
    sizes: dict[str, str] = {}
    for line in text.split("== loaded", 1)[1].splitlines():
        if line.startswith("== "):
            outcome = line.removeprefix("== ")
            names = ("n_ctx", "n_ctx_seq", "n_batch", "n_ubatch")
            yield outcome, [f"{name} = {sizes[name]}" for name in names] + lines if outcome == "ok" else lines
            lines, sizes = [], {}
        elif line.startswith("llama_context: ") and " = " in line:
            name, _, value = line.removeprefix("llama_context: ").partition(" = ")
            sizes[name.strip()] = value.strip()
        elif line.startswith(COMPARED) and not any(word in line for word in UNCOMPARED):
            lines.append(line)
        elif line.startswith("llama_init_from_model: ") and "enabling flash" not in line:
            lines.append(
                line.removeprefix("llama_init_from_model: ").removeprefix(
                    "failed to initialize the context: "
                )
            )


def header_has_experts(header: GgufHeader) -> bool:
    """Whether a file has experts: those of the written files are fewer than the configs'."""
    return any(key.endswith(".expert_count") for key in header.values)


def main(folder: Path, contexts: int, seed: int) -> int:
    """Compare; return the number of differences."""
    folder.mkdir(parents=True, exist_ok=True)
    probe, chance, counts = build_probe(folder), random.Random(seed), Counter[str]()
    models = configs()
    for name, config in models.items():
        model = llama_model(read_architecture(read_document(config)))
        with (folder / f"{name}.gguf").open("rb") as file:
            header = read_gguf_header(file.read(MOST_HEADER_BYTES))
        if gguf_model(header.values, header.tensor_bytes).model != replace(
            model, has_experts=header_has_experts(header)
        ):
            CONSOLE.print(f"{name}: the file's header and the config give different layers")
            counts["differences"] += 1
        flags = [draw(chance) for _ in range(-(-contexts // len(models)))]
        asks = "\n".join(map(asked, flags)) + "\n"
        done = run([probe, folder / f"{name}.gguf"], input=asks, capture_output=True, text=True, check=False)
        if "== loaded" not in done.stdout:
            CONSOLE.print(f"{name}: not loaded: {done.stdout[-500:]}")
            counts["differences"] += 1
            continue
        answers = list(theirs(done.stdout))
        if len(answers) < len(flags):
            # The library aborts on an assertion: its answers to this context and later ones are unknown.
            CONSOLE.print(f"{name}: {asked(flags[len(answers)])}: aborted: {done.stderr[:300]}")
            counts["aborted"] += 1
        for each, answer in zip(flags, answers, strict=False):
            expected = ours(model, each)
            counts[answer[0]] += 1
            if answer != expected:
                counts["differences"] += 1
                CONSOLE.print(f"{name}: {asked(each)}: {answer[0]}, expected {expected[0]}")
                for line in sorted(set(answer[1]) ^ set(expected[1])) or ["the order differs"]:
                    CONSOLE.print(f"  {'theirs' if line in answer[1] else 'ours'}: {line}")
    CONSOLE.print(
        f"{len(models)} models, {counts['ok']} contexts, {counts['refused']} refused, "
        f"{counts['aborted']} aborts, {counts['differences']} differ"
    )
    return counts["differences"]


if __name__ == "__main__":
    folder, *numbers = sys.argv[1:]
    contexts, seed = (*map(int, numbers), *(1100, 1)[len(numbers) :])
    sys.exit(1 if main(Path(folder).resolve(), contexts, seed) else 0)
