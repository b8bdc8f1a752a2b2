"""Starts the real engine with dummy weights and collects the memory figures of each of its workers."""

import dataclasses
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the job of this folder."""
    sys.path.insert(0, str(Path(__file__).parent))
    job = json.loads(Path("job.json").read_text("utf-8"))
    model = Path("model")
    model.mkdir()
    (model / "config.json").write_text(json.dumps(job["config"]), "utf-8")
    _phase("importing the engine")
    started = time.monotonic()
    import torch  # noqa: PLC0415 - only the node's environment has it
    import vllm  # noqa: PLC0415 - as torch
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - as torch
    from vllm.usage.usage_lib import UsageContext  # noqa: PLC0415 - as torch
    from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415 - as torch

    arguments = _arguments(EngineArgs, job, model)
    timings = {"import": time.monotonic() - started}
    _phase("starting the engine")
    started = time.monotonic()
    # The context of `vllm serve`: its defaults differ from those of the offline class.
    engine = LLMEngine.from_engine_args(EngineArgs(**arguments), usage_context=UsageContext.OPENAI_API_SERVER)
    timings["start"] = time.monotonic() - started
    _phase("reading the numbers")
    result = {
        "outcome": "measured",
        "release": vllm.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": _nccl(torch),
        "utilization": arguments["gpu_memory_utilization"],
        "device": _device(torch),
        "ranks": engine.collective_rpc("probe_report"),
        "timings": timings,
        "steps": _steps(engine, job),
    }
    Path("result.json").write_text(json.dumps(result), "utf-8")


def _steps(engine: Any, job: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: ANN401 - the engine's
    """Return the timed points of the job; none where it has none."""
    if not job.get("points"):
        return []
    from vllm import SamplingParams  # noqa: PLC0415 - as torch

    # It lies beside this file, and is no module of a package here.
    timer = importlib.import_module("step_times").StepTimer(
        engine, SamplingParams, engine.model_config.get_vocab_size()
    )
    found = []
    for number, point in enumerate(job["points"]):
        _phase(f"timing point {number + 1} of {len(job['points'])}")
        found.append(timer.timed(f"p{number}", point))
    return found


def _arguments(args_class: Any, job: dict[str, Any], model: Path) -> dict[str, Any]:  # noqa: ANN401 - the engine's
    known = {field.name: field for field in dataclasses.fields(args_class)}
    flags = {name: value for name, value in job["flags"].items() if value is not None}
    if missing := sorted(flags.keys() - known.keys()):
        raise SystemExit(f"this engine has no flags {', '.join(missing)}")
    requested = flags.get("gpu_memory_utilization", known["gpu_memory_utilization"].default)
    return {
        **flags,
        "model": str(model.resolve()),
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "disable_log_stats": True,
        "worker_extension_cls": "probe_extension.ProbeExtension",
        "gpu_memory_utilization": min(requested, job["max_utilization"]),
        "num_gpu_blocks_override": job["blocks"],
    }


def _device(torch: Any) -> dict[str, Any] | None:  # noqa: ANN401 - torch has no types here
    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "total_bytes": properties.total_memory,
    }


def _nccl(torch: Any) -> str | None:  # noqa: ANN401 - see above
    if not torch.cuda.is_available():
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _phase(text: str) -> None:
    Path("phase").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
