"""Names of modules in lists of unquantized ones, against what releases built of them.

`spellings.json.gz` holds the parameters that vLLM 0.19.0 to 0.33.0 allocated on torch's meta device,
unsharded, for one config of each class. Each is in fp8 with `ignored_layers`: names of modules after prefixes
that might be the class's, each prefix before another module, so that the total says which of them the release
took. Configs of classes that none is bundled of are defaults of the transformers library, with eight layers.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import resolved
from service.architecture.config import InvalidConfig, read_document
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.names.spellings import Spelling, spelled, spelling_of

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "spellings.json.gz").read_bytes())
)
EXACT: Final = 1e-6
"""The most that a row may be off: a scale of 32 bits counts where a list names a module."""
FAR: Final[Mapping[str, str]] = {
    "KimiK3ForConditionalGeneration": "on the meta device alone the projector stays quantized",
    "HrmTextForCausalLM": "its two stacks have layers of the same numbers",
    "MuseGlimmerForConditionalGeneration": "gates are a matrix of their own, which a list may name apart",
    "Gemma3nForCausalLM": "layers that share a cache project queries alone, in a matrix of another name",
    "SmolLM3ForCausalLM": "on the meta device its fp8 matrices are made of the model's type again",
    "PhiForCausalLM": "what the transformers library makes of it has no bias of the output",
    "RobertaForTokenClassification": "0.19.0 and 0.22.1 have another head",
    "XLMRobertaForTokenClassification": "0.19.0 and 0.22.1 have another head",
    "Cosmos3EdgeForConditionalGeneration": "its default projector has another width than its text part",
    "DiffusionGemmaForBlockDiffusion": "its default config has layers that the release makes others of",
    "GraniteSpeechPlusForConditionalGeneration": "as SmolLM3, on 0.22.1: the transformers library runs it",
    "MiniMaxForCausalLM": "0.28.0 runs it on the transformers library, in other matrices",
    "ExaoneMoeForCausalLM": "before 0.27.0 the transformers library runs it, in other matrices",
    "VaultGemmaForCausalLM": "before 0.27.0 the transformers library runs it, in other matrices",
    "Qwen2VLForConditionalGeneration": "transformers 4 takes the class of the text part, null, and pools",
}
"""Classes of which some row is further off, and why."""


def _error(row: Mapping[str, Any]) -> float | None:
    config = DATA["configs"][row["config"]]
    quantization = {**config["quantization_config"], "ignored_layers": row["ignored"]}
    rules = rules_for(Version(row["release"]))
    try:
        architecture = read_architecture(read_document({**config, "quantization_config": quantization}))
        architecture, start = resolved(
            architecture, ServeFlags(max_model_len=256), rules, find_gpu("h100-sxm-80gb")
        )
    except (UnknownArchitecture, EngineRefusal, InvalidConfig):
        return None
    deployment = Parallelism(compute_capability=(9, 0), dtype=start.dtype)
    return parameter_bytes(architecture, deployment, start.release) / float(row["parameters"]) - 1


def _class(row: Mapping[str, Any]) -> str:
    return str(row["config"]).rpartition("-")[0]


CLASSES: Final = sorted({_class(row) for row in DATA["rows"]})


@pytest.mark.parametrize("name", sorted(set(CLASSES) - FAR.keys()))
def test_a_list_names_what_the_release_takes_it_for(name: str) -> None:
    rows = [row for row in DATA["rows"] if _class(row) == name]
    errors = {row["release"]: error for row in rows if (error := _error(row)) is not None}

    assert {release: error for release, error in errors.items() if abs(error) > EXACT} == {}


def test_what_is_listed_as_far_still_is() -> None:
    far = {_class(row) for row in DATA["rows"] if abs(_error(row) or 0) > EXACT}

    assert far == FAR.keys()


def test_a_module_has_the_name_and_the_parts_of_its_class() -> None:
    """vLLM 0.33.0: falcon.py, falcon_h1.py, lfm2.py packed_modules_mapping."""
    release = Version("0.33.0")
    falcon, hybrid, lfm = (
        spelling_of(name, release) for name in ("FalconForCausalLM", "FalconH1ForCausalLM", "Lfm2ForCausalLM")
    )
    qkv = ("q_proj", "k_proj", "v_proj")

    assert spelled(falcon, "layers.3.self_attn.qkv_proj", qkv) == ("h.3.self_attention.query_key_value", ())
    assert spelled(hybrid, "layers.3.mamba.in_proj", ()) == ("3.mixer.in_proj", ())
    assert spelled(lfm, "layers.3.feed_forward.gate_up_proj", ("gate_proj", "up_proj")) == (
        "layers.3.feed_forward.w13",
        ("w1", "w3"),
    )
    assert spelled(Spelling(), "layers.3.self_attn.qkv_proj", qkv) == ("layers.3.self_attn.qkv_proj", qkv)


def test_a_newer_table_replaces_an_older_one() -> None:
    """Kimi K3's latent projections are quantized since 0.31.0: KimiMoE."""
    older, newer = (
        spelling_of("KimiK3ForConditionalGeneration", Version(release)) for release in ("0.30.0", "0.31.0")
    )

    assert older.leaves("layers.3.mlp.fc1_latent_proj")
    assert not older.leaves("layers.3.mlp.fc1_latent_projection")
    assert not newer.leaves("layers.3.mlp.fc1_latent_proj")
