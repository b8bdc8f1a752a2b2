"""Reads for which kind of device the engine ran, by its messages, its files and the words of libraries."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.text.lines import LogLine

_PLATFORM: Final = re.compile(r"[Dd]etected platform (cuda|rocm|cpu|xpu|tpu|hpu|neuron|npu)\b")
_OTHER_FILES: Final = {
    "rocm.py": "rocm",
    "xpu.py": "xpu",
    "tpu.py": "tpu",
    "cpu.py": "cpu",
    "cpu_attn.py": "cpu",
    "cpu_worker.py": "cpu",
    "cpu_model_runner.py": "cpu",
    "xpu_worker.py": "xpu",
    "xpu_model_runner.py": "xpu",
    "tpu_worker.py": "tpu",
    "neuron_worker.py": "neuron",
    "hpu_worker.py": "hpu",
    "hpu_model_runner.py": "hpu",
    "model_runner_v1.py": "npu",
    "worker_v1.py": "npu",
}
TITLED: Final = 3
"""Lines at the beginning of a text in which its title stands."""
_TAGGED: Final = re.compile(r"\[(ROCm|XPU|CPU|TPU|NPU)(?: Backend)?\]", re.IGNORECASE)
"""A platform in the brackets of an issue's title."""
_CALL_OF_OTHER: Final = re.compile(
    r'File "[^"]{0,400}/vllm/[^"]{0,200}/((?:cpu|xpu|tpu|neuron|hpu)_(?:worker|model_runner|attn)\.py)"'
)
"""A call of a file that only one platform uses."""
_OTHER_WORDS: Final = (
    ("HIP out of memory", "rocm"),
    ("vllm-openai-rocm", "rocm"),
    ("rocm/vllm", "rocm"),
    ("XPU out of memory", "xpu"),
    ("tpu_model_runner.py", "tpu"),
    ("quantization=tpu_int8", "tpu"),
    ('"backend":"openxla"', "tpu"),
    ("HSA_STATUS_ERROR", "rocm"),
    ("HIP error: ", "rocm"),
    ("AMD Instinct MI", "rocm"),
    ("UR_RESULT_ERROR_", "xpu"),
    ("rocm-smi", "rocm"),
    ("VLLM_ROCM_", "rocm"),
    ("vllm_ascend", "npu"),
    ("torch_npu", "npu"),
    ("vllm_neuron", "neuron"),
    ("torch_neuronx", "neuron"),
    ("neuronx_distributed", "neuron"),
    ("libneuronxla", "neuron"),
    ("intel/llm-scaler-vllm", "xpu"),
    ("Intel Arc Pro", "xpu"),
    ("Intel(R) Arc(TM)", "xpu"),
    ("+xpu", "xpu"),
    ("Platform plugin ascend is activated", "npu"),
    ("Platform plugin hpu is activated", "hpu"),
    ("vllm_gaudi", "hpu"),
    ("Platform plugin metal is activated", "metal"),
    ("vllm_metal", "metal"),
)
WITHOUT_KERNELS: Final = frozenset({"xpu", "tpu", "hpu", "neuron", "npu", "metal"})
"""Platforms whose builds of vLLM have no `vllm._C`: their kernels are those of a plugin or of a library."""


def platform_of(lines: Sequence[LogLine]) -> str | None:
    """Return the platform that a text names, such as `cuda` or `npu`; ``None`` where it names none."""
    for line in lines[:TITLED]:
        if line.text[:1] == "[" and (tag := _TAGGED.search(line.text[:80])) is not None:
            return tag[1].lower()
    for line in lines:
        match = _PLATFORM.search(line.text) if "platform " in line.text else None
        if match is not None:
            return match[1]
    for line in lines:
        if line.origin is not None and (file := line.origin[0].rpartition("/")[2]) in _OTHER_FILES:
            return _OTHER_FILES[file]
        if line.text.startswith('File "') and (call := _CALL_OF_OTHER.match(line.text)) is not None:
            return call[1].partition("_")[0]
        for words, platform in _OTHER_WORDS:
            if words in line.text:
                return platform
    return None
