"""What three releases build and refuse of gpt-oss, whose sizes of 2880 few kernels take.

`gpt_oss_layouts.json.gz` holds what vLLM 0.22.1, 0.29.0 and 0.33.0 answered on compute capability 9.0 to
gpt-oss-20b, quantized in some hundred ways: the bytes of its parameters, or what they raised. They were asked
without a checkpoint, and without the packages humming-kernels, which releases since 0.23.0 require, and
amd-quark: refusals for want of those are left out.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu

FILE: Final = Path(__file__).parent.parent / "data" / "oracle" / "gpt_oss_layouts.json.gz"
DATA: Final = json.loads(gzip.decompress(FILE.read_bytes()))
STARTED: Final = [row for row in DATA["rows"] if "error" not in row]
REFUSED: Final = [row for row in DATA["rows"] if "error" in row]
NAMES: Final = sorted({row["layout"] for row in DATA["rows"]})
FORCED: Final = (("VLLM_TEST_FORCE_FP8_MARLIN", "1"),)
WITHOUT_TENSORS: Final = frozenset({"gptq4_g32_0", "gptq4_g32_1", "gptq8_g32_0", "gptq8_g32_1"})
"""Layouts of which the checkpoint's tensors decide whether the router is quantized."""
SAME_WORDS: Final = frozenset(
    {
        "ar_w3",
        "mxfp8",
        "awq4_g-1",
        "ct_fp8_chstatic",
        "gptq4_g-1_0",
        "gptq4_g-1_1",
        "gptq8_g-1_0",
        "gptq8_g-1_1",
    }
)
"""Layouts that are refused for one cause alone."""


def refusal_of(row: Mapping[str, Any], environment: tuple[tuple[str, str], ...] = ()) -> EngineRefusal | None:
    """Return what we say that the release raises."""
    document: dict[str, Any] = DATA["base"] | {"quantization_config": DATA["layouts"][row["layout"]]}
    flags = ServeFlags(max_model_len=1024, environment=environment)
    rules = rules_for(Version(row["release"]))
    try:
        dry_start(read_architecture(read_document(document)), flags, rules, find_gpu("h100-sxm-80gb"))
    except EngineRefusal as refusal:
        return refusal
    except InvalidConfig as invalid:
        return EngineRefusal(Stage.CONFIG, str(invalid), type="ValidationError")
    return None


@pytest.mark.parametrize("layout", sorted(set(NAMES) - WITHOUT_TENSORS))
def test_what_a_release_builds_is_not_refused(layout: str) -> None:
    assert [row for row in STARTED if row["layout"] == layout and refusal_of(row) is not None] == []


@pytest.mark.parametrize("layout", NAMES)
def test_what_a_release_refuses_is_refused(layout: str) -> None:
    assert [row for row in REFUSED if row["layout"] == layout and refusal_of(row) is None] == []


@pytest.mark.parametrize("layout", sorted(SAME_WORDS))
def test_a_refusal_has_the_class_and_the_words_of_the_release(layout: str) -> None:
    rows = [row for row in REFUSED if row["layout"] == layout]
    assert rows
    for row in rows:
        refusal = refusal_of(row)
        assert refusal is not None
        assert refusal.type == row["error"]
        assert row["message"] == refusal.message, row


def test_a_variable_gives_weights_in_fp8_alone_to_marlin_on_hopper() -> None:
    """vLLM 0.22.0, MarlinFP8ScaledMMLinearKernel.is_supported."""
    (row,) = (row for row in REFUSED if (row["layout"], row["release"]) == ("ct_fp8_a16", "0.22.1"))
    assert "VLLM_TEST_FORCE_FP8_MARLIN=1" in row["message"]
    document = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_hidden_layers": 2,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
        "quantization_config": DATA["layouts"]["ct_fp8_a16"],
    }
    architecture = read_architecture(read_document(document))
    rules = rules_for(Version("0.22.1"))
    with pytest.raises(EngineRefusal, match="FORCE_FP8_MARLIN"):
        dry_start(architecture, ServeFlags(), rules, find_gpu("h100-sxm-80gb"))
    dry_start(architecture, ServeFlags(environment=FORCED), rules, find_gpu("h100-sxm-80gb"))
    dry_start(architecture, ServeFlags(), rules, find_gpu("a100-sxm-80gb"))
