"""Bytes of parameters of models, layouts and parallel sizes drawn at random, against what releases built.

`weighed.json.gz` holds what vLLM 0.19.0 to 0.33.0 allocated on torch's meta device for tensor parallel rank 0
of each pipeline stage: classes drawn evenly, with their own configs or a random layout of `layouts.json.gz`
(seeds 77, 4711, 20261122 to 20261129, and 20261201 and 20261202, which changed sizes and lists too),
every class that is read with its own config or the library's default (seeds 20261301 and 20261302, some in
float16), models of text and media whose text part ties its output and whose whole config does not, and the
reverse (`tie`; those with `nested` and `flat` of 38 classes on 0.20.2 and of 11 on
0.26.0 and 0.33.0), encoders of images and sound, two layers of gpt-oss with 32 experts in each layout,
classes with and without a tied output, real configs of public repositories with the flags of the shared rows
(seeds 20261401, 20261402 and 20261404 to 20261409; classes drawn evenly with changed sizes and made-up
layouts: 20261410 to 20261412; all of these together: 20261510, 20261511 and
20261513 to 20261515;
C behind the seed: custom code, for which a class without rules stood), configs
without a part on text or on images (`absent`), two pipeline stages (`stage`), four ranks with whole experts
on one (`wide`) and a layout of compressed-tensors (`stored`) of classes that no seed drew so, the same layout
with the lists that tools write
for encoders (`listed`), encoders by the defaults of their config classes (`towers`), of configs whose code a
class without rules replaced (`custom`), of DeepSeek-OCR, Qwen3-Omni and Qwen3-ASR (`omni`), a class that
transformers runs since vLLM dropped its own (`dropped`), and every other class of 0.33.0's registry, and of
0.20.2's, with a config.json or params.json written for it, of published widths and few layers, those with
encoders in five quantized layouts (`class`), and DBRX, whose experts have a class of their own (`own`).
The rows of `gate` are unquantized experts of widths that are no multiple of 128 whose gate is SiLU (Qwen 3)
or another function (gpt-oss, OpenAI's privacy filter, Gemma 4, MiniMax M3), on Blackwell. Those of `heads`
have a head_dim that classes do not read, and heads that do not divide the hidden size. Those of `unproduced`
are Inkling in NVFP4, whose section is in the form of ModelOpt's file and names no producer, with four lists;
those of `by-transformers` are classes that a release dropped or does not list yet.
Most models with more than eight layers were cut to eight, but for the last eleven kinds.
Rows with `"tensors": false` are of GPTQ and AWQ models without a checkpoint; the others had safetensors
headers that name the quantized layers.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import resolved
from service.architecture.config import InvalidConfig, read_document
from service.architecture.model import ModelArchitecture
from service.architecture.model_files import ModelFiles, is_params
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.engine_config.config_format import read_files
from service.engine_config.null_fields import check_null_fields
from service.engine_config.parallel_checks import check_layers
from service.engine_config.required_fields import check_required_fields
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.checks.layout_checks import check_layouts, check_towers
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.accuracy.oracle import GPU_OF_CAPABILITY
from tests.accuracy.weights import WITHIN, without_tensors

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "weighed.json.gz").read_bytes())
)
UNREAD: Final = "a class that is not read"
RUN_BY_TRANSFORMERS: Final = "transformers runs the class, which the release says it no longer supports"
FAR: Final[Mapping[str, str]] = {
    "SolarOpenForCausalLM": UNREAD,
    "Cosmos3EdgeForConditionalGeneration": "its default projector has another width than its text part",
    "PersimmonForCausalLM": RUN_BY_TRANSFORMERS,
    "Phi4MultimodalForCausalLM": "transformers runs it, and counts its encoders as parts of the text model",
    "Qwen3ASRForConditionalGeneration": "before 0.26.0 a config without thinker_config means the defaults",
}
"""Classes of which some row is further off than a thousandth, and why."""
TRANSFORMED: Final = (
    "0.24.0 runs it on the transformers library, which makes what is on the meta device, as all is here, of "
    "the model's type: words of packed integers too"
)
"""TransformersBase.init_parameters."""
FAR_LAYOUTS: Final[Mapping[str, str]] = {
    "20261122-0279": "AutoRound's exceptions name modules that HRM calls otherwise",
    "20261124-0118": TRANSFORMED,
    "20261127-0018": TRANSFORMED,
    "20261127-0075": TRANSFORMED,
    "20261127-0261": TRANSFORMED,
    "20261122-0133": "the headers that were made up leave the output embedding unquantized",
    "4711-0123": "transformers 4 takes the class of the text part, null, for that of the model, and pools",
    "20261301-0021": "transformers runs the class, which the release does not list",
    "20261201-0183": "transformers 4 pools, as in 4711-0123",
    "20261202-0030": "the same",
    "20261201-0611": "on the meta device alone the projector stays quantized",
}
"""Rows that are further off for their layout, and why."""


@cache
def _architecture(name: str, release: Version = RELEASES[-1]) -> ModelArchitecture:
    stored = DATA["configs"][name]
    if is_params(stored["config"]):
        return read_files(ModelFiles(stored["config"]), rules_for(release).checkpoints)
    return read_architecture(
        read_document(with_modelopt_file(stored["config"], stored.get("hf_quant_config")))
    )


def _asked(row: Mapping[str, Any]) -> tuple[ModelArchitecture, Parallelism, Version]:
    """Return the model of a row, its ranks and its release.

    Raises:
        UnknownArchitecture: the model is not read.
        EngineRefusal: the release is said to refuse its config.
    """
    flags = ServeFlags(
        tensor_parallel_size=row["tp"],
        pipeline_parallel_size=row["pp"],
        enable_expert_parallel=row["ep"],
        max_model_len=row.get("length", 256),
        dtype=row.get("dtype", "auto"),
    )
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    architecture = _architecture(row["config"], Version(row["release"]))
    if not row.get("tensors", True):
        architecture = without_tensors(architecture, Version(row["release"])) or architecture
    architecture, config = resolved(architecture, flags, rules_for(Version(row["release"])), gpu)
    deployment = Parallelism(
        tensor_parallel_size=row["tp"],
        pipeline_parallel_size=row["pp"],
        enable_expert_parallel=config.enable_expert_parallel,
        compute_capability=(row["capability"][0], row["capability"][1]),
        dtype=config.dtype,
    )
    return architecture, deployment, config.release


def error_of(row: Mapping[str, Any]) -> float | None:
    """Return the relative error of the fullest stage, ``None`` for a model that is not read."""
    try:
        asked = _asked(row)
    except (UnknownArchitecture, EngineRefusal, InvalidConfig):
        return None
    ours = parameter_bytes_per_stage(*asked)
    return float(max(ours) / max(row["parameters"]) - 1)


def class_of(row: Mapping[str, Any]) -> str:
    named: list[str] = DATA["configs"][row["config"]]["config"].get("architectures", [])
    return named[0] if named else _architecture(row["config"]).class_name


CLASSES: Final = sorted({class_of(row) for row in DATA["rows"]})


@pytest.mark.parametrize("name", sorted(set(CLASSES) - FAR.keys()))
def test_what_is_drawn_weighs_what_the_release_builds(name: str) -> None:
    for row in DATA["rows"]:
        if class_of(row) == name and row["id"] not in FAR_LAYOUTS:
            error = error_of(row)
            assert error is not None, row
            assert abs(error) <= WITHIN, (error, row)


def test_what_releases_built_is_not_refused() -> None:
    refused = {}
    for row in DATA["rows"]:
        try:
            asked = _asked(row)
        except (UnknownArchitecture, EngineRefusal, InvalidConfig):
            continue
        try:
            rules = rules_for(asked[2])
            check_null_fields(asked[0], asked[2])
            check_required_fields(asked[0], rules.config_fields)
            check_layers(asked[0], row["tp"], rules.parallelism)
            check_layouts(*asked)
            check_towers(*asked)
        except EngineRefusal as refusal:
            refused[row["id"]] = str(refusal)

    assert refused == {}


def test_what_is_listed_as_far_still_is() -> None:
    """An entry that is no longer needed is removed, so that the lists only get shorter."""
    far = [row for row in DATA["rows"] if (error := error_of(row)) is None or abs(error) > WITHIN]

    assert {class_of(row) for row in far if row["id"] not in FAR_LAYOUTS} == FAR.keys()
    assert {row["id"] for row in far} >= FAR_LAYOUTS.keys()
