"""Flags of the engine in a request."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue

from service.application.schemas.flags.flag_objects import EplbInput, MediaLimitInput, SpeculativeInput
from service.application.schemas.flags.flag_types import MAX_KEYS, Count, small
from service.application.schemas.flags.flags import FlagsInput
from service.changed import changed
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject

UNTOUCHED: Final = ServeFlags()
LISTS: Final = (
    "kv_cache_dtype_skip_layers",
    "cudagraph_capture_sizes",
    "cpu_offload_params",
    "offload_params",
    "lora_target_modules",
)
"""Flags that take several words."""
OBJECTS: Final = ("limit_mm_per_prompt", "mm_processor_kwargs", "eplb_config", "hf_overrides", "rope_scaling")
"""Flags that take a JSON object."""


class ServeInput(FlagsInput):
    """Flags of `vllm serve`, by its own names. One left out (or null) takes the release's own default."""

    limit_mm_per_prompt: (
        dict[
            Annotated[str, Field(pattern=r"^[a-z_]{1,32}$")],
            Count | MediaLimitInput,
        ]
        | None
    ) = Field(
        default=None,
        max_length=16,
        description='Most images, videos and sounds of one prompt, by modality: `{"image": 2, '
        '"video": 0}`, or objects with `count` and the sizes that are profiled; null: 999 of each',
    )
    mm_processor_kwargs: (
        Annotated[
            dict[Annotated[str, Field(min_length=1, max_length=64)], JsonValue],
            Field(max_length=64),
            AfterValidator(small),
        ]
        | None
    ) = Field(
        default=None,
        description="Arguments of the model's own processor of images and videos, such as `max_pixels`; "
        "null: the processor's defaults",
    )
    eplb_config: EplbInput | None = Field(
        default=None, description="How experts are moved between ranks; null: the defaults"
    )
    speculative_config: SpeculativeInput | None = Field(
        default=None, description="Speculative decoding: how draft tokens are proposed; left out: none"
    )

    hf_overrides: Annotated[dict[str, Any], Field(max_length=MAX_KEYS), AfterValidator(small)] | None = Field(
        default=None,
        description="Keys that replace those of the config; of a config inside it, only the keys that "
        "are named; null: none",
    )
    rope_scaling: Annotated[dict[str, Any], Field(max_length=MAX_KEYS), AfterValidator(small)] | None = Field(
        default=None,
        description="Object that replaces the config's `rope_scaling`, up to 0.11.0; null: none",
    )
    environment: (
        Annotated[
            dict[
                Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")],
                Annotated[str, Field(max_length=200)],
            ],
            Field(max_length=MAX_KEYS),
        ]
        | None
    ) = Field(
        default=None,
        description="Environment variables of the engine. Those that change a plan are used "
        "(`VLLM_ATTENTION_BACKEND`, `VLLM_ALLOW_LONG_MAX_MODEL_LEN`, "
        "`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`, `VLLM_USE_V2_MODEL_RUNNER`, `VLLM_USE_DEEP_GEMM`, "
        "`VLLM_MOE_USE_DEEP_GEMM`, `VLLM_USE_FLASHINFER_MOE_FP8`, and `expandable_segments` of "
        "`PYTORCH_CUDA_ALLOC_CONF`), others are named in "
        "`warnings` if they may; null: none",
    )

    def overrides(self) -> dict[str, Any]:
        """Return the keys that replace those of the config."""
        given = {"rope_scaling": self.rope_scaling, "rope_theta": self.rope_theta}
        return {
            **{name: value for name, value in given.items() if value is not None},
            **(self.hf_overrides or {}),
        }

    def flags(self) -> ServeFlags:
        """Return the engine's flags."""
        given = {name: value for name, value in self if value is not None and name != "speculative_config"}
        if objects := given.keys() & set(OBJECTS):
            given |= self.model_dump(exclude_none=True, include=objects)
        if "environment" in given:
            given["environment"] = tuple(sorted(given["environment"].items()))
        given |= {name: tuple(given[name]) for name in LISTS if name in given}
        given |= {name: JsonObject.of(given[name]) for name in OBJECTS if name in given}
        speculative = None if self.speculative_config is None else self.speculative_config.parsed()
        return changed(UNTOUCHED, speculative_config=speculative, **given)
