"""FetchedConfig: a model's config files and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG: Final = "config.json"
PARAMS: Final = "params.json"
HF_QUANT_CONFIG: Final = "hf_quant_config.json"
MODULES: Final = "modules.json"
"""What sentence-transformers makes of a model. Only its name matters; it is not read."""
POOLING: Final = "1_Pooling/config.json"
SENTENCES: Final = "sentence_bert_config.json"
TOKENIZER: Final = "tokenizer_config.json"
WEIGHTS_INDEX: Final = "model.safetensors.index.json"
CONSOLIDATED_INDEX: Final = "consolidated.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedConfig:
    """The files that describe a model, at one commit of its repository.

    Attributes:
        id: the model's id on the Hub.
        revision: the commit's 40 hexadecimal digits; None where the source does not state it.
        source: `hub` for files from the Hub (also cached or imported), `bundled` for the bundled snapshot,
            `inline` for a folder of this host.
        config: `config.json`; empty if the repository has only a `params.json`.
        params: `params.json`, Mistral's own config format; None where there is none.
        consolidated: whether there are weights in Mistral's own files (`consolidated*.safetensors`).
        quantization_config: `hf_quant_config.json`, in which ModelOpt states the dtypes of weights and cache;
            None where the repository has none.
        pools: whether the repository lists a `modules.json` and the pooling module of sentence-transformers.
        pooling: that module's `1_Pooling/config.json`; None where the repository has none.
        sentences: `sentence_bert_config.json`; None where the repository has none.
        tokenizer: `tokenizer_config.json`, of models with learned positions alone; else None.
        parameter_counts: parameters by safetensors dtype, as the Hub counts them: packed 4-bit weights are
            counted unpacked under their container's dtype, so these are not bytes. None where unknown.
        total_parameters: the Hub's count over all dtypes; None where unknown.
        total_parameter_bytes: bytes of all tensors as stored; None where unknown.
        task: the Hub's task of the model, if models for that task do not generate text; else None.
        stale: whether this is a cached earlier response, because the Hub could not be reached now.
        provenance: where the files and figures come from, as text for people.
        note: a caution about the result, as text for people; None where there is none.
    """

    id: str
    revision: str | None
    source: Literal["hub", "bundled", "inline"]
    config: Mapping[str, Any]
    params: Mapping[str, Any] | None = None
    consolidated: bool = False
    quantization_config: Mapping[str, Any] | None = None
    pools: bool = False
    pooling: Mapping[str, Any] | None = None
    sentences: Mapping[str, Any] | None = None
    tokenizer: Mapping[str, Any] | None = None
    parameter_counts: Mapping[str, int] | None = None
    total_parameters: int | None = None
    total_parameter_bytes: int | None = None
    task: str | None = None
    stale: bool = False
    provenance: str
    note: str | None = None
