"""Writes GGUF files that have the header of a model and no weights: their data is a hole in the file.

Run in an environment with `gguf` and `numpy`; configs are read from standard input, by the files' names.
Networks and vocabularies are small, since no cache depends on them.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Tensors = Iterator[tuple[str, Sequence[int]]]
Document = Mapping[str, Any]

VOCABULARY = 512
NETWORK = 256
EXPERTS = 4


def common(config: Document, **fields: object) -> dict[str, Any]:
    """Return the header's entries that every model has, by their names behind the architecture's."""
    width, heads = config["hidden_size"], config.get("num_attention_heads", 0)
    size = config.get("head_dim") or (width // heads if heads else 0)
    known = {
        "block_count": config["num_hidden_layers"],
        "context_length": config.get("max_position_embeddings", 1 << 20),
        "embedding_length": width,
        "feed_forward_length": NETWORK,
        "vocab_size": VOCABULARY,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.head_count": heads,
        "attention.head_count_kv": config.get("num_key_value_heads", heads),
        "attention.key_length": size,
        "attention.value_length": size,
        "rope.dimension_count": size,
    }
    return {key: value for key, value in {**known, **fields}.items() if value is not None}


def ends(width: int, norm: str = "output_norm") -> Tensors:
    """Yield embedding and final norm; the output shares the embedding."""
    yield "token_embd.weight", (width, VOCABULARY)
    yield f"{norm}.weight", (width,)


def network(layer: str, width: int, size: int = NETWORK) -> Tensors:
    """Yield a dense feed-forward network."""
    yield f"{layer}.ffn_norm.weight", (width,)
    yield f"{layer}.ffn_gate.weight", (width, size)
    yield f"{layer}.ffn_up.weight", (width, size)
    yield f"{layer}.ffn_down.weight", (size, width)


def experts(layer: str, width: int) -> Tensors:
    """Yield routed experts."""
    yield f"{layer}.ffn_gate_inp.weight", (width, EXPERTS)
    for name, shape in (("gate", (width, NETWORK)), ("up", (width, NETWORK)), ("down", (NETWORK, width))):
        yield f"{layer}.ffn_{name}_exps.weight", (*shape, EXPERTS)


def shared_experts(layer: str, width: int) -> Tensors:
    """Yield the experts that see every token."""
    for name, shape in (("gate", (width, NETWORK)), ("up", (width, NETWORK)), ("down", (NETWORK, width))):
        yield f"{layer}.ffn_{name}_shexp.weight", shape


def attention(layer: str, width: int, queries: int, keys: int, values: int | None = None) -> Tensors:
    """Yield projections of attention with heads."""
    yield f"{layer}.attn_norm.weight", (width,)
    yield f"{layer}.attn_q.weight", (width, queries)
    yield f"{layer}.attn_k.weight", (width, keys)
    yield f"{layer}.attn_v.weight", (width, keys if values is None else values)
    yield f"{layer}.attn_output.weight", (queries, width)


def norms(layer: str, size: int, *names: str) -> Tensors:
    """Yield norms of one size."""
    for name in names:
        yield f"{layer}.{name}.weight", (size,)


def dense(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """A model of equal layers (Llama)."""
    fields = common(config)
    width, size = config["hidden_size"], fields["attention.key_length"]

    def tensors() -> Tensors:
        yield from ends(width)
        for index in range(config["num_hidden_layers"]):
            layer = f"blk.{index}"
            heads = (config["num_attention_heads"] * size, config["num_key_value_heads"] * size)
            yield from attention(layer, width, *heads)
            yield from network(layer, width)

    return "llama", fields, tensors()


def gemma3(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Gemma 3: windows in five of six layers."""
    text = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        **config.get("text_config", config),
    }
    fields = common(text, **{"attention.sliding_window": text["sliding_window"], "context_length": 131072})
    width, size = text["hidden_size"], text["head_dim"]

    def tensors() -> Tensors:
        yield from ends(width)
        for index in range(text["num_hidden_layers"]):
            layer = f"blk.{index}"
            yield from attention(
                layer, width, text["num_attention_heads"] * size, text["num_key_value_heads"] * size
            )
            yield from norms(layer, size, "attn_q_norm", "attn_k_norm")
            yield from norms(layer, width, "post_attention_norm", "post_ffw_norm")
            yield from network(layer, width)

    return "gemma3", fields, tensors()


def gemma4(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Gemma 4: two sizes of heads, and maybe layers that read another layer's cache."""
    text = config["text_config"]
    layers, width, heads = text["num_hidden_layers"], text["hidden_size"], text["num_attention_heads"]
    windows = [kind == "sliding_attention" for kind in text["layer_types"]]
    wide, narrow = text["global_head_dim"], text["head_dim"]
    globals_ = text.get("num_global_key_value_heads") or text["num_key_value_heads"]
    counts = [text["num_key_value_heads"] if window else globals_ for window in windows]
    inputs = text.get("hidden_size_per_layer_input") or 0
    fields = common(
        text,
        **{
            "attention.head_count_kv": counts,
            "attention.key_length": wide,
            "attention.value_length": wide,
            "attention.key_length_swa": narrow,
            "attention.value_length_swa": narrow,
            "attention.sliding_window": text["sliding_window"],
            "attention.sliding_window_pattern": windows,
            "attention.shared_kv_layers": text.get("num_kv_shared_layers") or 0,
            "embedding_length_per_layer_input": inputs,
            "rope.dimension_count": wide,
            "rope.dimension_count_swa": narrow,
            "rope.freq_base_swa": 10000.0,
        },
    )

    def tensors() -> Tensors:
        yield from ends(width)
        yield "rope_freqs.weight", (wide // 2,)
        if inputs:
            yield "per_layer_token_embd.weight", (inputs * layers, VOCABULARY)
            yield "per_layer_model_proj.weight", (width, inputs * layers)
            yield "per_layer_proj_norm.weight", (inputs,)
        for index, window in enumerate(windows):
            layer, size = f"blk.{index}", narrow if window else wide
            yield from attention(layer, width, heads * size, counts[index] * size)
            yield from norms(layer, size, "attn_q_norm", "attn_k_norm")
            yield from norms(layer, width, "post_attention_norm", "post_ffw_norm")
            yield from network(layer, width)
            if inputs:
                yield f"{layer}.inp_gate.weight", (width, inputs)
                yield f"{layer}.proj.weight", (inputs, width)
                yield f"{layer}.post_norm.weight", (width,)

    return "gemma4", fields, tensors()


def gemma3n(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Gemma 3n: the first 20 layers store keys and values."""
    text = config["text_config"]
    layers, width, size = text["num_hidden_layers"], text["hidden_size"], text["head_dim"]
    copies, inputs, rank = 4, text["hidden_size_per_layer_input"], 64
    fields = common(
        text,
        **{
            "attention.sliding_window": text["sliding_window"],
            "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in text["layer_types"]],
            "attention.shared_kv_layers": text["num_kv_shared_layers"],
            "altup.num_inputs": copies,
            "altup.active_idx": 0,
            "embedding_length_per_layer_input": inputs,
        },
    )

    def tensors() -> Tensors:
        yield from ends(width)
        yield "altup_proj.weight", (width, width, copies - 1)
        yield "altup_unembd_proj.weight", (width, width, copies - 1)
        yield "per_layer_token_embd.weight", (inputs * layers, VOCABULARY)
        yield "per_layer_model_proj.weight", (width, inputs * layers)
        yield "per_layer_proj_norm.weight", (inputs,)
        for index in range(layers):
            layer = f"blk.{index}"
            yield from attention(
                layer, width, text["num_attention_heads"] * size, text["num_key_value_heads"] * size
            )
            yield from norms(layer, size, "attn_q_norm", "attn_k_norm")
            yield from norms(
                layer, width, "post_attention_norm", "post_ffw_norm", "post_norm", "altup_correct_scale",
                "altup_router_norm", "laurel_post_norm",
            )  # fmt: skip
            yield from network(layer, width)
            yield f"{layer}.inp_gate.weight", (width, inputs)
            yield f"{layer}.proj.weight", (inputs, width)
            yield f"{layer}.altup_correct_coef.weight", (copies, copies)
            yield f"{layer}.altup_predict_coef.weight", (copies, copies * copies)
            yield f"{layer}.altup_router.weight", (width, copies)
            yield f"{layer}.laurel_l.weight", (width, rank)
            yield f"{layer}.laurel_r.weight", (rank, width)

    return "gemma3n", fields, tensors()


def gpt_oss(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """gpt-oss: windows in every other layer, and sinks."""
    width, size, heads = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    fields = common(
        config,
        **{
            "attention.sliding_window": config["sliding_window"],
            "expert_count": EXPERTS,
            "expert_used_count": 2,
            "expert_feed_forward_length": NETWORK,
        },
    )

    def tensors() -> Tensors:
        yield from ends(width)
        yield "output.weight", (width, VOCABULARY)
        for index in range(config["num_hidden_layers"]):
            layer = f"blk.{index}"
            yield from attention(layer, width, heads * size, config["num_key_value_heads"] * size)
            yield f"{layer}.attn_output.bias", (width,)
            yield f"{layer}.attn_sinks.weight", (heads,)
            yield from norms(layer, width, "post_attention_norm")
            yield from experts(layer, width)
            yield f"{layer}.ffn_gate_inp.bias", (EXPERTS,)
            for name, bias in (("gate", NETWORK), ("up", NETWORK), ("down", width)):
                yield f"{layer}.ffn_{name}_exps.bias", (bias, EXPERTS)

    return "gpt-oss", fields, tensors()


def deepseek(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """MLA, with an indexer in DeepSeek V3.2."""
    width, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    rotary, plain, values = config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"]
    queries, indexer = config.get("q_lora_rank") or 0, config.get("index_head_dim") or 0
    fields = common(
        config,
        **{
            "attention.head_count_kv": 1,
            "attention.key_length": rank + rotary,
            "attention.value_length": rank,
            "attention.key_length_mla": plain + rotary,
            "attention.value_length_mla": values,
            "attention.kv_lora_rank": rank,
            "attention.q_lora_rank": queries or None,
            "rope.dimension_count": rotary,
            "leading_dense_block_count": config["num_hidden_layers"],
            "expert_count": EXPERTS,
            "expert_used_count": 2,
            "expert_feed_forward_length": NETWORK,
            "expert_shared_count": 1,
            "expert_weights_scale": 1.0,
            "expert_gating_func": 2,
            "attention.indexer.head_count": config.get("index_n_heads"),
            "attention.indexer.key_length": indexer or None,
            "attention.indexer.top_k": config.get("index_topk"),
        },
    )

    def tensors() -> Tensors:
        yield from ends(width)
        for index in range(config["num_hidden_layers"]):
            layer = f"blk.{index}"
            yield from norms(layer, width, "attn_norm")
            yield from norms(layer, rank, "attn_kv_a_norm")
            if queries:
                yield from norms(layer, queries, "attn_q_a_norm")
                yield f"{layer}.attn_q_a.weight", (width, queries)
                yield f"{layer}.attn_q_b.weight", (queries, heads * (plain + rotary))
            else:
                yield f"{layer}.attn_q.weight", (width, heads * (plain + rotary))
            yield f"{layer}.attn_kv_a_mqa.weight", (width, rank + rotary)
            yield f"{layer}.attn_k_b.weight", (plain, rank, heads)
            yield f"{layer}.attn_v_b.weight", (rank, values, heads)
            yield f"{layer}.attn_output.weight", (heads * values, width)
            if indexer:
                yield f"{layer}.indexer.k_norm.weight", (indexer,)
                yield f"{layer}.indexer.k_norm.bias", (indexer,)
                yield f"{layer}.indexer.proj.weight", (width, config["index_n_heads"])
                yield f"{layer}.indexer.attn_k.weight", (width, indexer)
                yield f"{layer}.indexer.attn_q_b.weight", (queries, config["index_n_heads"] * indexer)
            yield from network(layer, width)

    return "deepseek32" if indexer else "deepseek2", fields, tensors()


def qwen3next(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Gated delta net in three of four layers."""
    width, size, heads = config["hidden_size"], config["head_dim"], config["num_attention_heads"]
    state, groups = config["linear_key_head_dim"], config["linear_num_key_heads"]
    ranks, kernel = config["linear_num_value_heads"], config["linear_conv_kernel_dim"]
    inner, keys = config["linear_value_head_dim"] * ranks, state * groups
    fields = common(
        config,
        **{
            "ssm.conv_kernel": kernel,
            "ssm.inner_size": inner,
            "ssm.state_size": state,
            "ssm.time_step_rank": ranks,
            "ssm.group_count": groups,
            "expert_count": EXPERTS,
            "expert_used_count": 2,
            "expert_feed_forward_length": NETWORK,
            "expert_shared_feed_forward_length": NETWORK,
            "rope.dimension_count": size // 4,
        },
    )

    def tensors() -> Tensors:
        yield from ends(width)
        for index in range(config["num_hidden_layers"]):
            layer = f"blk.{index}"
            yield from norms(layer, width, "attn_norm", "post_attention_norm")
            if index % 4 == 3:
                yield f"{layer}.attn_q.weight", (width, 2 * heads * size)
                for name in ("k", "v"):
                    yield f"{layer}.attn_{name}.weight", (width, config["num_key_value_heads"] * size)
                yield f"{layer}.attn_output.weight", (heads * size, width)
                yield from norms(layer, size, "attn_q_norm", "attn_k_norm")
            else:
                yield f"{layer}.attn_qkv.weight", (width, 2 * keys + inner)
                yield f"{layer}.attn_gate.weight", (width, inner)
                yield f"{layer}.ssm_conv1d.weight", (kernel, 2 * keys + inner)
                yield f"{layer}.ssm_dt.bias", (ranks,)
                yield f"{layer}.ssm_a", (ranks,)
                yield f"{layer}.ssm_ba.weight", (width, 2 * ranks)
                yield f"{layer}.ssm_norm.weight", (state,)
                yield f"{layer}.ssm_out.weight", (inner, width)
            yield from experts(layer, width)
            yield f"{layer}.ffn_gate_inp_shexp.weight", (width,)
            yield from shared_experts(layer, width)

    return "qwen3next", fields, tensors()


def lfm2(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Short convolutions, and attention in a few layers."""
    width, heads, kernel = config["hidden_size"], config["num_attention_heads"], config["conv_L_cache"]
    attending = [index in config["full_attn_idxs"] for index in range(config["num_hidden_layers"])]
    counts = [config["num_key_value_heads"] if attends else 0 for attends in attending]
    fields = common(config, **{"attention.head_count_kv": counts, "shortconv.l_cache": kernel})
    size = width // heads

    def tensors() -> Tensors:
        yield from ends(width, "token_embd_norm")
        for index, attends in enumerate(attending):
            layer = f"blk.{index}"
            if attends:
                yield from attention(layer, width, width, counts[index] * size)
                yield from norms(layer, size, "attn_q_norm", "attn_k_norm")
            else:
                yield from norms(layer, width, "attn_norm")
                yield f"{layer}.shortconv.conv.weight", (kernel, width)
                yield f"{layer}.shortconv.in_proj.weight", (width, 3 * width)
                yield f"{layer}.shortconv.out_proj.weight", (width, width)
            yield from network(layer, width)

    return "lfm2", fields, tensors()


def mamba2(config: Document) -> tuple[str, dict[str, Any], Tensors]:
    """Mamba 2: no attention at all."""
    width, heads, groups = config["hidden_size"], config["num_heads"], config["n_groups"]
    inner, state, kernel = heads * config["head_dim"], config["state_size"], config["conv_kernel"]
    fields = common(
        config,
        **{
            "ssm.conv_kernel": kernel,
            "ssm.inner_size": inner,
            "ssm.state_size": state,
            "ssm.time_step_rank": heads,
            "ssm.group_count": groups,
            "attention.head_count_kv": 0,
        },
    )
    channels = inner + 2 * groups * state

    def tensors() -> Tensors:
        yield from ends(width)
        for index in range(config["num_hidden_layers"]):
            layer = f"blk.{index}"
            yield from norms(layer, width, "attn_norm")
            yield f"{layer}.ssm_in.weight", (width, 2 * inner + 2 * groups * state + heads)
            yield f"{layer}.ssm_conv1d.weight", (kernel, channels)
            yield f"{layer}.ssm_conv1d.bias", (channels,)
            yield f"{layer}.ssm_dt.bias", (heads,)
            yield f"{layer}.ssm_a", (1, heads)
            yield f"{layer}.ssm_d", (1, heads)
            yield f"{layer}.ssm_norm.weight", (inner // groups, groups)
            yield f"{layer}.ssm_out.weight", (inner, width)

    return "mamba2", fields, tensors()


READERS: Mapping[str, Callable[[Document], tuple[str, dict[str, Any], Tensors]]] = {
    "LlamaForCausalLM": dense,
    "Gemma3ForConditionalGeneration": gemma3,
    "Gemma4ForConditionalGeneration": gemma4,
    "Gemma3nForConditionalGeneration": gemma3n,
    "GptOssForCausalLM": gpt_oss,
    "DeepseekV2ForCausalLM": deepseek,
    "DeepseekV32ForCausalLM": deepseek,
    "Qwen3NextForCausalLM": qwen3next,
    "Lfm2ForCausalLM": lfm2,
    "Mamba2ForCausalLM": mamba2,
}
"""By model class, what returns llama.cpp's name of the architecture, the header's entries and the tensors."""


def write(path: Path, config: Document) -> None:
    """Write the file of a model."""
    import gguf  # noqa: PLC0415 - of the other environment
    import numpy  # noqa: PLC0415, ICN001

    architecture, fields, tensors = READERS[config["architectures"][0]](config)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string("tokenizer.ggml.model", "no_vocab")
    for key, value in fields.items():
        name = f"{architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    size = 0
    for name, shape in tensors:
        elements = 1
        for dimension in shape:
            elements *= dimension
        plain = (
            len(shape) == 1 or name.endswith("bias") or "conv" in name or "altup" in name or "ssm_" in name
        )
        each = 4 if plain else 2
        kind = numpy.dtype(numpy.float32 if plain else numpy.float16)
        writer.add_tensor_info(name, list(reversed(shape)), kind, elements * each)
        size += -(-elements * each // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    begin = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(begin + size)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, document in json.load(sys.stdin).items():
        write(folder / f"{name}.gguf", document)
