"""How layers are spread over ranks, and what the engine refuses of it."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.layers.attention import Attention, PackedConvolutions
from service.architecture.layers.decoder_layer import Mixer
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    ShortConvolution,
)
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.architecture.traits import ClassLimits
from service.engine_config.parallel_checks import check_context_parallel, check_layers, check_shared_caches
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.mutations.configs import recorded_configs

NEWEST = rules_for(Version("0.33.0"))
CONVOLVED = Attention(8, 4, 128, 128, convolutions=PackedConvolutions(4, 1024))
SINKS = Attention(24, 6, 128, 128, stored_sinks=128)
MAMBA2 = Mamba2(
    num_heads=24, head_dim=64, num_groups=2, state_size=128, conv_kernel=4, intermediate_size=1536
)


def made_of(mixer: Mixer) -> ModelArchitecture:
    """Return a model whose layers mix tokens so, and take any number of ranks but for that."""
    llama = bundled_architecture("meta-llama/Llama-3.1-8B")
    return replace(llama, layers=(replace(llama.layers[0], mixer=mixer),))


WORDLESS = "AssertionError: "


@pytest.mark.parametrize(
    ("mixer", "ranks", "words"),
    [
        # models/inkling/nvidia/sconv_swa_attn.py InklingConvState
        (CONVOLVED, 8, "AssertionError: sconv SWA cache supports tp_size <= num_kv_heads (4), got 8"),
        # model_executor/models/openpangu.py OpenPanguSinkAttention
        (
            SINKS,
            8,
            (
                "ValueError: Number of KV heads 6 is less than TP size 8, KV heads replication is not "
                "support yet."
            ),
        ),
        (
            SINKS,
            4,
            (
                "ValueError: Number of KV heads is greater than TP size, but total_num_kv_heads 6 is not "
                "divisible by tp_size 4."
            ),
        ),
        # model_executor/models/llama.py LlamaAttention
        (Attention(24, 6, 128, 128), 4, WORDLESS),
        (Attention(24, 6, 128, 128), 8, WORDLESS),
        # distributed/utils.py ensure_divisibility
        (GatedDeltaNet(6, 24, 128, 128, 4), 4, "AssertionError: 6 is not divisible by 4"),
        (GatedDeltaNet(8, 12, 128, 128, 4), 8, "AssertionError: 12 is not divisible by 8"),
        (Mamba(1020, 16, 4, 64), 8, "AssertionError: 1020 is not divisible by 8"),
        (ShortConvolution(1020, 3), 8, "AssertionError: 1020 is not divisible by 8"),
        # layers/mamba/gdn/kimi_gdn_linear_attn.py and layers/mamba/linear/base.py
        (KimiDeltaAttention(12, 128, 4), 8, WORDLESS),
        (LinearAttention(12, 128), 8, WORDLESS),
        # layers/mamba/linear/bailing_linear_attn.py BailingMoELinearAttention
        (
            GroupedLinearAttention(64, 128, 4),
            8,
            "AssertionError: tp_size must be <= group_norm_size for local rms norm",
        ),
        (
            GroupedLinearAttention(64, 128, 6),
            4,
            "AssertionError: group_norm_size must be divisible by tp_size",
        ),
        (GroupedLinearAttention(6, 128, 4), 4, WORDLESS),
        # layers/mamba/mamba_mixer2.py MambaMixer2
        (
            replace(MAMBA2, num_heads=20),
            8,
            "AssertionError: Tensor parallel world size must divide num heads.",
        ),
        (
            MAMBA2,
            8,
            (
                "AssertionError: If tensor parallel world size does not divide num_groups, then num_groups "
                "must equal 1."
            ),
        ),
    ],
)
def test_ranks_that_a_layer_cannot_be_split_over_are_refused_in_its_words(
    mixer: Mixer, ranks: int, words: str
) -> None:
    with pytest.raises(EngineRefusal) as caught:
        check_layers(made_of(mixer), ranks, NEWEST.parallelism)

    assert caught.value.stage is Stage.MODEL
    assert f"{caught.value.type}: {caught.value.message}" == words


@pytest.mark.parametrize(
    ("mixer", "ranks"),
    [
        (CONVOLVED, 4),
        (SINKS, 3),
        (Attention(24, 6, 128, 128), 12),  # each head on two ranks
        (GatedDeltaNet(8, 24, 128, 128, 4), 8),
        (KimiDeltaAttention(12, 128, 4), 4),
        (GroupedLinearAttention(64, 128, 8), 8),
        (MAMBA2, 2),
        (replace(MAMBA2, num_groups=1), 8),  # keys of one group are repeated on every rank
    ],
)
def test_ranks_that_it_can_be_are_not(mixer: Mixer, ranks: int) -> None:
    check_layers(made_of(mixer), ranks, NEWEST.parallelism)


def test_a_model_on_one_rank_alone_says_so() -> None:
    """As vLLM 0.33.0 has it, models/dory.py DoryForCausalLM.__init__."""
    dory = replace(
        made_of(Attention(8, 8, 64, 64)),
        class_name="DoryForCausalLM",
        class_limits=ClassLimits(tensor_parallel=False),
    )
    check_layers(dory, 1, NEWEST.parallelism)
    with pytest.raises(EngineRefusal) as caught:
        check_layers(dory, 2, NEWEST.parallelism)
    assert caught.value.message == "Dory currently supports tensor_parallel_size=1 only"
    assert (caught.value.stage, caught.value.type) == (Stage.MODEL, "ValueError")


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("0.11.0", None),  # nor earlier: key/value heads are not looked at
        (
            "0.26.0",
            (
                "tensor parallel size 8 must be greater than total num kv heads 8 when enable decode context "
                "parallel for GQA/MQA"
            ),
        ),
        (
            "0.27.0",
            (
                "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (8) to be greater "
                "than the model's total number of KV heads (8). Increase `--tensor-parallel-size` or set "
                "`--decode-context-parallel-size 1`."
            ),
        ),
    ],
)
def test_ranks_share_the_tokens_of_a_request_only_where_heads_are_repeated(
    release: str, words: str | None
) -> None:
    """ModelConfig.verify_with_parallel_config; MLA has no heads to repeat."""
    rules = rules_for(Version(release))
    check_context_parallel(bundled_architecture("deepseek-ai/DeepSeek-V3"), 8, 2, rules.parallelism)
    if words is None:
        check_context_parallel(made_of(Attention(32, 8, 128, 128)), 8, 2, rules.parallelism)
        return
    with pytest.raises(EngineRefusal) as caught:
        check_context_parallel(made_of(Attention(32, 8, 128, 128)), 8, 2, rules.parallelism)
    assert (caught.value.stage, caught.value.message) == (Stage.CONFIG, f"VllmConfig: {words}")


def test_ranks_that_context_parallelism_does_not_divide_are_refused_before_a_batch() -> None:
    """vLLM 0.33.0 was asked: ParallelConfig is made before SchedulerConfig."""
    flags = ServeFlags(
        decode_context_parallel_size=4, max_num_batched_tokens=512, enable_chunked_prefill=False
    )
    model = bundled_architecture("Qwen/Qwen3-8B")

    with pytest.raises(EngineRefusal) as caught:
        dry_start(model, flags, rules_for(Version("0.33.0")), find_gpu("h100-sxm-80gb"))

    assert str(caught.value) == "ParallelConfig: tp_size=1 must be divisible by dcp_size=4."


def test_stages_that_part_a_layer_from_the_cache_it_reads_are_refused_in_the_engines_words() -> None:
    """As vLLM 0.25.1 answered: of 42 layers 14 a stage; those from 24 on read the caches of 22 and 23."""
    with pytest.raises(EngineRefusal) as caught:
        check_shared_caches(bundled_architecture("google/gemma-4-E4B-it"), 3)

    assert caught.value.stage is Stage.MODEL
    assert caught.value.message == (
        "Specified KV sharing target layer for language_model.model.layers.28.self_attn.attn is not valid: "
        "target layer language_model.model.layers.22.self_attn.attn is not a valid Attention layer in the "
        "model."
    )


@pytest.mark.parametrize("stages", [1, 2])
def test_stages_that_hold_reader_and_owner_are_not(stages: int) -> None:
    """21 layers each: the second stage has 22 and 23 beside all that read them."""
    check_shared_caches(bundled_architecture("google/gemma-4-E4B-it"), stages)


def test_heads_of_an_encoder_of_sound_are_split_too() -> None:
    """As vLLM 0.24.0 answered for GLM-ASR over eight ranks: its encoder has 20 heads."""
    model = read_architecture(read_document(recorded_configs()["defaults/glmasr"]))
    check_layers(model, 4, NEWEST.parallelism)
    with pytest.raises(EngineRefusal) as caught:
        check_layers(model, 8, NEWEST.parallelism)
    assert (caught.value.type, caught.value.message) == ("AssertionError", "20 is not divisible by 8")
