"""Arguments of other engines in a request, by the engines' own names."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from service.llama_cpp.cache_types import CACHE_TYPES
from service.llama_cpp.llama_weights import DEFAULT_QUANTIZATION, bits_by_quantization
from service.llama_cpp.server_flags import FlashAttention, ServerFlags, SplitMode
from service.nearest_names import few_of, nearest, quoted
from service.sglang.server_args import CACHE_BITS as SGLANG_TYPES
from service.sglang.server_args import SglangArgs
from service.tensorrt_llm.llm_args import CACHE_BITS as TENSORRT_TYPES
from service.tensorrt_llm.llm_args import TensorrtArgs

MOST_CELLS: Final = 1 << 28
MOST_RANKS: Final = 1 << 10
MOST_SHARES: Final = 128
Cells = Annotated[int, Field(ge=0, le=MOST_CELLS)]
Positive = Annotated[int, Field(ge=1, le=MOST_CELLS)]
Share = Annotated[float, Field(ge=0, le=1)]
Part = Annotated[float, Field(ge=0, le=1e6)]


def _parts(given: Any) -> Any:  # noqa: ANN401 - whatever was sent
    """Return `3,1` as a list; the schema reads the numbers."""
    return given.split(",") if isinstance(given, str) else given


class EngineServeInput(BaseModel):
    """Arguments of an engine, by long or short names; dashes are as good as underscores."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _by_known_names(cls, document: Any) -> Any:  # noqa: ANN401 - whatever was sent
        if not isinstance(document, Mapping):
            return document
        found: dict[str, Any] = {}
        for given, value in document.items():
            plain = str(given).lstrip("-").replace("-", "_")
            name, value_of_name = cls._meant(plain, value)
            if name not in cls.model_fields:
                longer = [each for each in cls.model_fields if plain and each.startswith(plain)]
                near = longer or nearest(plain, (*cls.model_fields, *cls.short_names()))
                words = f"; nearest: {', '.join(near)}" if near else ""
                raise PydanticCustomError(
                    "unknown_argument",
                    "{given} is not modelled{words}",
                    {"given": quoted(str(given)), "words": words},
                )
            found[name] = value_of_name
        return found

    @classmethod
    def _meant(cls, name: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - whatever was sent
        name, value = ("no_" + name[3:], value) if name.startswith("no_") else (name, value)
        long = cls.short_names().get(name, name)
        if long not in cls.model_fields and long.startswith("no_"):
            positive = cls.short_names().get(long[3:], long[3:])
            return positive, False
        return long, value

    @classmethod
    def short_names(cls) -> Mapping[str, str]:
        """Return the long name of each short one."""
        return {}


class LlamaServeInput(EngineServeInput):
    """Flags of `llama-server`."""

    ctx_size: Cells | None = Field(
        default=None,
        description="`-c`: cells of the context, one a token, of all slots together; 0: the model's own; "
        "left out: what `--fit` chooses",
    )
    parallel: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="`-np`: slots; left out: 4 that share one cache"
    )
    n_gpu_layers: Annotated[int, Field(ge=-1, le=MOST_CELLS)] | None = Field(
        default=None, description="`-ngl`: layers on GPUs, the output counted as one; left out: all"
    )
    cache_type_k: Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"] = Field(
        default="f16", description="`-ctk`: type of keys; left out: f16"
    )
    cache_type_v: Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"] = Field(
        default="f16", description="`-ctv`: type of values; left out: f16"
    )
    flash_attn: Literal["on", "off", "auto"] = Field(
        default="auto", description="`-fa`: flash attention; left out: auto"
    )
    swa_full: bool = Field(default=False, description="`--swa-full`: windows as long as the context")
    kv_unified: bool | None = Field(
        default=None, description="`-kvu`: slots share one cache; left out: only where `-np` is left out"
    )
    tensor_split: Annotated[list[Part], Field(max_length=MOST_SHARES), BeforeValidator(_parts)] = Field(
        default_factory=list,
        description="`-ts`: share of each GPU, a list or as `3,1`; left out: equal shares",
    )
    split_mode: Literal["none", "layer", "row", "tensor"] = Field(
        default="layer", description="`-sm`: how layers are divided over GPUs; left out: layer"
    )
    batch_size: Positive = Field(default=2048, description="`-b`: tokens of a batch; left out: 2048")
    ubatch_size: Positive = Field(default=512, description="`-ub`: tokens of a micro-batch; left out: 512")
    fit: Literal["on", "off"] = Field(
        default="on", description="`--fit`: choose what is left out by the free memory; left out: on"
    )
    fit_target: Cells = Field(
        default=1024, description="MiB (2^20 bytes) that `--fit` leaves free; left out: 1024"
    )
    fit_ctx: Positive = Field(
        default=4096, description="Least context in tokens that `--fit` chooses; left out: 4096"
    )
    kv_offload: bool = Field(default=True, description="Whether the cache is on GPUs (`--no-kv-offload`)")
    draft_max: Annotated[int, Field(ge=0, le=1024)] = Field(
        default=0,
        description="Draft tokens of the model itself, which add rows of states; left out: 0",
    )
    quant: str = Field(
        default=DEFAULT_QUANTIZATION,
        max_length=16,
        description="Quantization of the weights, as behind the colon of `-hf`; left out: Q4_K_M",
    )
    hf_file: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="`-hff`: GGUF file of the model's repository; left out: by the quantization",
    )

    @classmethod
    def short_names(cls) -> Mapping[str, str]:
        """Return the server's short names."""
        return {
            "c": "ctx_size", "np": "parallel", "ngl": "n_gpu_layers", "gpu_layers": "n_gpu_layers",
            "ctk": "cache_type_k", "ctv": "cache_type_v", "fa": "flash_attn", "kvu": "kv_unified",
            "ts": "tensor_split", "sm": "split_mode", "b": "batch_size", "ub": "ubatch_size",
            "fitt": "fit_target", "fitc": "fit_ctx", "kvo": "kv_offload", "nkvo": "no_kv_offload",
            "draft": "draft_max", "hff": "hf_file",
        }  # fmt: skip

    @model_validator(mode="after")
    def _known_quantization(self) -> "LlamaServeInput":
        known = bits_by_quantization()
        if self.quant.upper() not in known:
            alike = nearest(self.quant.upper(), known)
            words = few_of(alike, tuple(known), "`llama-quantize --help` lists all")
            raise PydanticCustomError(
                "unknown_quantization", f"{quoted(self.quant)} is no quantization; {words}"
            )
        return self

    def flags(self) -> ServerFlags:
        """Return the core's flags."""
        plain = self.model_dump(
            exclude={"tensor_split", "fit", "flash_attn", "split_mode", "quant", "hf_file"}
        )
        return ServerFlags(
            **plain,
            tensor_split=tuple(self.tensor_split),
            fit=self.fit == "on",
            flash_attn=FlashAttention(self.flash_attn),
            split_mode=SplitMode(self.split_mode),
        )


class SglangServeInput(EngineServeInput):
    """Arguments of `sglang.launch_server`."""

    tp_size: Annotated[int, Field(ge=1, le=MOST_RANKS)] | None = Field(
        default=None, description="Ranks that share every layer; left out: the GPUs that there are"
    )
    mem_fraction_static: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Part of a GPU for weights and pools; left out: chosen by the GPU"
    )
    max_total_tokens: Positive | None = Field(
        default=None, description="Tokens of the pool at most; left out: all"
    )
    max_running_requests: Positive | None = Field(
        default=None, description="Requests at once at most; left out: chosen by the pool"
    )
    chunked_prefill_size: Annotated[int, Field(ge=-1, le=MOST_CELLS)] | None = Field(
        default=None, description="Tokens of a prefill chunk, -1 for none; left out: chosen by the GPU"
    )
    swa_full_tokens_ratio: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.8, description="Tokens of the windows' pool for each of the full pool; left out: 0.8"
    )
    hybrid_kvcache_ratio: Share | None = Field(
        default=None, description="Share of windows up to 0.4.9; left out: no pool of their own"
    )
    page_size: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Tokens of a page; left out: 1, which some attention backends change"
    )
    kv_cache_dtype: Literal[
        "auto", "bf16", "bfloat16", "fp8_e5m2", "fp8_e4m3", "mxfp8", "nvfp4", "fp4_e2m1", "fp4_mx_block16"
    ] = Field(default="auto", description="Type of the pools; left out: the model's")
    context_length: Positive | None = Field(
        default=None, description="Longest context in tokens; left out: the model's"
    )
    disable_radix_cache: bool = Field(default=False, description="No prefixes are reused")
    disable_overlap_schedule: bool = Field(
        default=False, description="No batch is prepared while another runs"
    )
    mamba_full_memory_ratio: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.9, description="Bytes of states for each byte of the pool; left out: 0.9"
    )
    max_mamba_cache_size: Positive | None = Field(
        default=None, description="Number of requests whose states are held; left out: by memory"
    )
    cuda_graph_max_bs: Positive | None = Field(
        default=None, description="Requests of the largest CUDA graph; left out: chosen by the GPU"
    )

    @classmethod
    def short_names(cls) -> Mapping[str, str]:
        """Return SGLang's other names."""
        return {"tp": "tp_size", "tensor_parallel_size": "tp_size"}

    def args(self) -> SglangArgs:
        """Return the core's arguments."""
        return SglangArgs(**{**self.model_dump(), "tp_size": self.tp_size or 1})


class TensorrtServeInput(EngineServeInput):
    """Arguments of `trtllm-serve` and of `kv_cache_config`."""

    tp_size: Annotated[int, Field(ge=1, le=MOST_RANKS)] | None = Field(
        default=None, description="Ranks that share every layer; left out: the GPUs that there are"
    )
    free_gpu_memory_fraction: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.9, description="Part of the free bytes of a GPU for the cache; left out: 0.9"
    )
    tokens_per_block: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Tokens of a block or page; left out: the release's default"
    )
    max_attention_window: Annotated[list[Positive], Field(max_length=4096)] = Field(
        default_factory=list, description="Window of each layer, repeated; left out: the model's"
    )
    max_tokens: Positive | None = Field(
        default=None, description="Tokens of the cache at most; left out: all"
    )
    max_gpu_total_bytes: Annotated[int, Field(ge=1, le=1 << 50)] | None = Field(
        default=None, description="Bytes of the cache on a GPU at most; left out: no limit"
    )
    max_batch_size: Positive = Field(default=2048, description="Requests at once at most; left out: 2048")
    max_num_tokens: Positive = Field(default=8192, description="Tokens of a step at most; left out: 8192")
    max_seq_len: Positive | None = Field(default=None, description="Longest request; left out: the model's")
    max_beam_width: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="Number of beams; left out: 1"
    )
    sink_token_length: Cells = Field(default=0, description="Tokens of the attention sink; left out: 0")
    dtype: Literal["auto", "bfloat16", "float16", "fp8", "nvfp4"] = Field(
        default="auto", description="Type of the cache; left out: the model's"
    )
    use_kv_cache_manager_v2: bool | None = Field(
        default=None, description="Whether the second manager is used; left out: where heads differ in size"
    )
    pool_ratio: Annotated[list[Share], Field(max_length=64)] = Field(
        default_factory=list,
        description="Share of each pool group, in the order in which layers first use their windows; left "
        "out: by a typical request",
    )
    avg_seq_len: Positive | None = Field(
        default=None, description="Length of a typical request; left out: one request of 2048 tokens"
    )

    @classmethod
    def short_names(cls) -> Mapping[str, str]:
        """Return other names of the same arguments."""
        return {"kv_cache_free_gpu_memory_fraction": "free_gpu_memory_fraction", "tp": "tp_size"}

    def args(self) -> TensorrtArgs:
        """Return the core's arguments."""
        plain = self.model_dump()
        lists = {name: tuple(plain[name]) for name in ("max_attention_window", "pool_ratio")}
        return TensorrtArgs(**{**plain, **lists, "tp_size": self.tp_size or 1})


TYPES: Final = {"llama.cpp": CACHE_TYPES, "sglang": SGLANG_TYPES, "tensorrt-llm": TENSORRT_TYPES}
"""Types of the cache by engine, which the choices above repeat; a test compares them."""
