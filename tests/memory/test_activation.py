"""Elements of a token that are alive at once in a layer, by hand."""

from dataclasses import dataclass, replace

import pytest
from packaging.version import Version

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    NgramConvolution,
    Recurrence,
    ShortConvolution,
)
from service.memory.activation import (
    ActivationConstants,
    activation,
    compiled_copy,
    indexer_bytes,
    layer_width,
)
from service.memory.budget_types import Estimate
from service.memory.constants import constants_at
from service.memory.media_choices import ALL_MEDIA, MediaChoice, MediaChoices
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards
from service.units import GIB, MIB
from tests.memory.recorded import bundled

MODEL = bundled("meta-llama/Llama-3.1-8B")
RESIDUAL = 2 * 4096
"""The hidden state, and what is added to it."""


def width(mixer: Mixer, ranks: int, beside: Recurrence | None = None) -> int:
    layer = DecoderLayer(mixer, NoFeedForward(), beside=beside)
    return layer_width(layer, MODEL, Shards(ranks)) - RESIDUAL


@pytest.mark.parametrize(
    ("mixer", "elements"),
    [
        # queries, keys, values and a gate of 32 heads, before and after the convolution or the kernel
        (KimiDeltaAttention(32, 128, 4), 2 * 4 * 32 * 128),
        (LinearAttention(32, 128), 2 * 4 * 32 * 128),
        (GroupedLinearAttention(32, 128, 8), 2 * 4 * 32 * 128),
        # channels and their gate
        (Mamba(8192, 16, 4, 256), 2 * 2 * 8192),
        # the same with keys and queries of 8 groups
        (Mamba2(128, 64, 8, 128, 4, 8192), 2 * 2 * (8192 + 8 * 128)),
        # two gates and what goes through them
        (ShortConvolution(2048, 3), 2 * 3 * 2048),
    ],
)
def test_recurrent_layers_hold_what_is_projected_and_a_copy_split_over_the_ranks(
    mixer: Recurrence, elements: int
) -> None:
    assert width(mixer, 1) == elements
    assert width(mixer, 4) == elements // 4


@pytest.mark.parametrize(("keeps", "kept"), [(True, 2 * 2048 + 3 * 6144), (False, 0)])
def test_compiled_code_keeps_what_a_delta_net_projected_and_its_output(keeps: bool, kept: int) -> None:
    """Qwen3.5-27B: 16 heads of keys, 48 of values, each of 128, and a network of 17,408 beside them.

    A start of Qwen3.6-27B with 65,536 tokens a batch (0.24.0, GB10) left 47.84 GiB for the cache, where 52.88
    were planned without what is kept, which is 2.75 GiB there.
    """
    model = bundled("Qwen/Qwen3.5-27B")
    widths = [layer_width(each, model, Shards(1), keeps=keeps) for each in model.distinct_layers]

    assert max(widths) == 2 * 5120 + 3 * 17_408 + kept


def test_a_delta_net_that_is_one_operation_with_its_projections_keeps_nothing() -> None:
    """vLLM 0.33.0, olmo_gdn_linear_attn.py forward: the whole layer runs in olmo_hybrid_gdn_full_forward."""
    whole = GatedDeltaNet(16, 48, 128, 128, 4, separate_projections=True)
    layer = DecoderLayer(whole, DenseFeedForward(17_408))

    assert layer_width(layer, MODEL, Shards(1), keeps=True) == RESIDUAL + 3 * 17_408


def test_n_grams_are_whole_on_every_rank() -> None:
    ngrams = NgramConvolution(8192, conv_kernel=4, dilation=3, embedding_size=2048)
    assert width(ngrams, 1) == width(ngrams, 8) == 4 * 8192


def test_what_stands_beside_attention_is_alive_with_it() -> None:
    attention, beside = Attention(32, 8, 128, 128), ShortConvolution(2048, 3)
    # Queries and outputs of 32 heads, keys and values of 8.
    assert width(attention, 1) == (32 + 8) * 256
    assert width(attention, 1, beside) == (32 + 8) * 256 + 2 * 3 * 2048


def test_hidden_streams_are_whole_on_every_rank() -> None:
    mixer = CompressedAttention(64, 512, 1024, 64, 128, 4, None, 8, 1024)
    copies = replace(MODEL, hyper_connections=bundled("deepseek-ai/DeepSeek-V4-Flash").hyper_connections)
    layer = DecoderLayer(mixer, NoFeedForward())
    # There are four copies of the hidden state instead of one.
    assert layer_width(layer, copies, Shards(1)) - layer_width(layer, MODEL, Shards(1)) == 3 * RESIDUAL


@pytest.mark.parametrize(("release", "low_copies"), [("0.11.0", 3.0), ("0.13.0", 8.9), ("0.19.0", 3.0)])
def test_flashinfer_samples_in_three_copies_where_it_is_the_default(release: str, low_copies: float) -> None:
    """vLLM 0.11.0, TopKTopPSampler: logits, masked logits and probabilities in 32 bits, with the model's own.

    Qwen3-32B: 1,024 requests, logits of 151,936 tokens. From 0.11.1 on a variable selects FlashInfer.
    """
    architecture, shards = bundled("Qwen/Qwen3-32B"), Shards(tensor_parallel_size=8)
    run = ProfileRun(
        shards=shards,
        element_bytes=2,
        tokens=2048,
        sequences=1024,
        samples=True,
        encodes=False,
        v2_model_runner=False,
        compiles_embedding=False,
        draft_tokens=False,
        max_model_len=40_960,
    )

    constants = constants_at(Version(release))
    peak = activation(architecture, constants.activation, constants.encoders, run)

    logits = 1024 * 151_936 * (4 * low_copies + 2)
    assert peak.low / logits == pytest.approx(1.05, abs=0.15)
    # Where both samplers are possible, the interval spans them.
    assert (peak.high / peak.low > 2) == (release == "0.11.0")


@pytest.mark.parametrize(
    ("media", "copied"),
    [
        (ALL_MEDIA, False),
        (MediaChoices(language_model_only=True), True),
        (MediaChoices(choices=(MediaChoice("image", 0), MediaChoice("video", 0))), True),
        (MediaChoices(choices=(MediaChoice("video", 0),)), False),
        (MediaChoices(profiled=False), False),
    ],
)
def test_without_media_the_compiled_code_reads_the_embedding(media: MediaChoices, copied: bool) -> None:
    """vLLM 0.33.0, GPUModelRunner.uses_inputs_embeds: tokens are passed where no item of media is served.

    Gemma 3 27B: 262,208 rows of 5,376 elements in bfloat16; its forward pass takes 2 x 5,376 + 3 x 21,504
    elements for each of 8,192 tokens, and 5 to 25 MiB beside them.
    """
    constants = constants_at(Version("0.33.0"))
    run = replace(COMPILING, tokens=8192, encodes=media is ALL_MEDIA, media=media)
    copy = compiled_copy(bundled("google/gemma-3-27b-it"), constants.activation, run)

    embedding, forward = 262_208 * 5376 * 2, 8192 * 2 * (2 * 5376 + 3 * 21_504)
    timed = embedding + 20 * MIB
    assert copy.high == (timed - forward - 5 * MIB if copied else 0)
    assert copy.bytes == (timed - forward - 25 * MIB if copied else 0)
    assert copy.low == 0


COMPILING = ProfileRun(
    shards=Shards(1),
    element_bytes=2,
    tokens=2048,
    sequences=256,
    samples=True,
    encodes=False,
    v2_model_runner=True,
    compiles_embedding=True,
    draft_tokens=False,
    max_model_len=4096,
)


def copy_of(release: str, run: ProfileRun, model: str = "Qwen/Qwen2.5-7B-Instruct") -> Estimate:
    return compiled_copy(bundled(model), constants_at(Version(release)).activation, run)


def test_compiling_peaks_at_a_copy_of_the_embedding() -> None:
    """Two starts of Qwen2.5-7B on one A40 (vLLM 0.25.0) leave 25.46 GiB, and 26.23 once it is compiled.

    Worked by hand: 152,064 x 3,584 x 2 bytes and 20 MiB, less a forward pass of 2,048 x (2 x 3,584 + 3 x
    18,944) x 2 bytes and 25 MiB, or 128 with the V1 model runner.
    """
    copy = copy_of("0.25.0", COMPILING)

    assert copy.bytes == 1_089_994_752 + 20 * MIB - 262_144_000 - 25 * MIB
    assert copy.bytes / GIB == pytest.approx(26.23 - 25.46, abs=0.01)
    assert copy.low == 0
    # Nothing where the model is not compiled, and none is seen beside the sampler of older releases.
    assert copy_of("0.25.0", replace(COMPILING, compiles_embedding=False)).high == 0
    assert copy_of("0.18.1", replace(COMPILING, v2_model_runner=False)).high == 0
    # Four of ten starts of these releases show it.
    older = copy_of("0.22.1", replace(COMPILING, v2_model_runner=False, sequences=8))
    assert older.bytes == pytest.approx(0.4 * (1_089_994_752 + 20 * MIB - 262_144_000 - 128 * MIB), abs=1)


def test_in_0_27_a_second_copy_may_stay() -> None:
    """Qwen2.5-7B on an L4 (0.27.1) leaves 3.70 of 20.28 GiB beside weights of 14.29: two copies of 1.02."""
    copy, embedding = copy_of("0.27.1", COMPILING), 1_089_994_752

    assert copy.high == copy_of("0.28.0", COMPILING).high + embedding
    assert copy.bytes < 20.28 * GIB - (14.29 + 3.70) * GIB < copy.high + 0.6 * GIB


def test_a_forward_pass_above_the_copy_hides_it() -> None:
    """16,384 tokens take 1.95 GiB in the widest layer; the embedding is 1.02."""
    assert copy_of("0.25.0", replace(COMPILING, tokens=16_384)).bytes == 0
    # Each of four ranks copies its quarter, and the layers are a quarter as wide but for the residual stream.
    quarter = copy_of("0.25.0", replace(COMPILING, shards=Shards(4)))
    logits = 256 * 152_064 * 6 + 2048 * 2 * 3584
    assert quarter.bytes == 1_089_994_752 // 4 + 20 * MIB - logits - 25 * MIB


@pytest.mark.parametrize(
    ("model", "release", "max_model_len", "gathered"),
    [
        # "40 * 163840 * 132 = 865075200 bytes = 825 MB", says the source of 0.13.0.
        ("deepseek-ai/DeepSeek-V3.2", "0.13.0", 163_840, 865_075_200),
        ("deepseek-ai/DeepSeek-V3.2", "0.12.0", 163_840, 43_253_760),
        ("nvidia/GLM-5.2-NVFP4", "0.26.0", 819_200, 4_325_376_000),
        ("deepseek-ai/DeepSeek-V3.1", "0.26.0", 163_840, 0),
    ],
)
def test_indexers_of_sparse_attention_have_room_for_keys(
    model: str, release: str, max_model_len: int, gathered: int
) -> None:
    run = replace(GLM, max_model_len=max_model_len)

    assert indexer_bytes(bundled(model), constants_at(Version(release)).activation, run) == gathered


def test_the_peak_of_a_model_with_an_indexer_is_the_one_that_a_log_has() -> None:
    """0.26.0 on four GB200, GLM-5.2-NVFP4 with 819,200 tokens: "peak activation 6.31 GiB"."""
    constants = constants_at(Version("0.26.0"))
    peak = activation(bundled("nvidia/GLM-5.2-NVFP4"), constants.activation, constants.encoders, GLM)

    assert peak.bytes / GIB == pytest.approx(6.31, abs=0.15)
    assert peak.low / GIB <= 6.31 <= peak.high / GIB


GLM = ProfileRun(
    shards=Shards(tensor_parallel_size=4, expert_parallel_size=4),
    element_bytes=2,
    tokens=8192,
    sequences=1024,
    samples=True,
    encodes=False,
    v2_model_runner=False,
    compiles_embedding=True,
    draft_tokens=False,
    max_model_len=819_200,
)
WORK_SPACE = 8192 * 8 * (2048 + 2048) * 2
"""Qwen3-30B-A3B, 8,192 tokens to eight experts: two rows as wide as the hidden state, in bfloat16."""


def test_experts_keep_their_work_space_since_the_manager_of_work_spaces() -> None:
    """vLLM 0.13.0, UnquantizedFusedMoEMethod calls fused_experts; 0.14.0, WorkspaceManager."""
    before, since = (_peak_of_experts(release) for release in ("0.13.0", "0.14.0"))

    assert since.activation.base_mib_v1.middle > before.activation.base_mib_v1.middle
    assert since.peak - before.peak == WORK_SPACE + MIB * (
        since.activation.base_mib_v1.middle - before.activation.base_mib_v1.middle
    )


@pytest.mark.parametrize(
    ("release", "requested_gib", "weights_gib", "available_gib"),
    [
        # Logged on an H100 (79.19 GiB at 0.9) and on an RTX PRO 6000 (94.97 at 0.85): the same model, with
        # 8,192 tokens a batch and 1,024 requests.
        ("0.10.2", 0.9 * 79.19, 56.9342, 8.68),
        ("0.12.0", 0.85 * 94.97, 56.9342, 18.15),
    ],
)
def test_what_a_mixture_of_experts_left_before_the_manager_of_work_spaces(
    release: str, requested_gib: float, weights_gib: float, available_gib: float
) -> None:
    taken = requested_gib - weights_gib - available_gib

    assert _peak_of_experts(release).peak / GIB == pytest.approx(taken, abs=0.2)


@dataclass(frozen=True, slots=True)
class _Profiled:
    activation: ActivationConstants
    peak: int


def _peak_of_experts(release: str) -> _Profiled:
    constants = constants_at(Version(release))
    run = ProfileRun(
        shards=Shards(1),
        element_bytes=2,
        tokens=8192,
        sequences=1024,
        samples=True,
        encodes=False,
        v2_model_runner=False,
        compiles_embedding=False,
        draft_tokens=False,
        max_model_len=None,
    )
    model = bundled("Qwen/Qwen3-30B-A3B-Instruct-2507")
    return _Profiled(
        constants.activation, activation(model, constants.activation, constants.encoders, run).bytes
    )


SAMPLED = ProfileRun(
    shards=Shards(1),
    element_bytes=2,
    tokens=2048,
    sequences=256,
    samples=True,
    encodes=False,
    v2_model_runner=True,
    compiles_embedding=False,
    draft_tokens=False,
    max_model_len=None,
)


@pytest.mark.parametrize(("release", "logit_bytes"), [("0.25.1", 2 + 4), ("0.26.0", 2), ("0.27.0", 2)])
def test_the_v2_sampler_copies_logits_to_0_25_1(release: str, logit_bytes: int) -> None:
    """Qwen3-8B, 256 requests and 2,048 tokens: 151,936 logits in bfloat16, to 0.25.1 in float32 too.

    A row of the forward pass has 4,096 elements twice, and three times 12,288.
    """
    model, constants = bundled("Qwen/Qwen3-8B"), constants_at(Version(release))
    rest = constants.activation.base_mib_v2.middle * MIB
    if constants.activation.charges_counts_v2:
        rest += 256 * (151_936 + 4748) * 4

    peak = activation(model, constants.activation, constants.encoders, SAMPLED).bytes

    assert peak - rest == max(
        256 * 151_936 * logit_bytes + 2048 * 4096 * 2, 2048 * (2 * 4096 + 3 * 12_288) * 2
    )


@pytest.mark.parametrize(
    ("name", "release", "tokens", "logged_gib"),
    [
        ("Qwen/Qwen3-8B", "0.27.1", 2048, 0.19),
        ("Qwen/Qwen3-4B", "0.26.0", 2048, 0.16),
        ("Qwen/Qwen2.5-3B-Instruct", "0.27.0", 2048, 0.16),
        ("Qwen/Qwen2.5-1.5B-Instruct", "0.28.1", 8192, 0.50),
    ],
)
def test_logged_peaks_of_the_v2_model_runner_that_compile_nothing(
    name: str, release: str, tokens: int, logged_gib: float
) -> None:
    """Peaks that public logs print, without the table of tokens, which is there before the profile run."""
    model, constants = (
        bundled(name),
        replace(constants_at(Version(release)).activation, charges_counts_v2=False),
    )
    run = replace(SAMPLED, tokens=tokens)

    peak = activation(model, constants, constants_at(Version(release)).encoders, run)

    assert peak.bytes / GIB == pytest.approx(logged_gib, abs=0.025)
    assert peak.low / GIB <= logged_gib <= peak.high / GIB


@pytest.mark.parametrize(
    ("release", "logit_bytes"),
    [
        # to 0.16.0 PyTorch sorts, which takes 8.9 copies in float32; at first nothing is beside them
        ("0.10.2", 2 + 8.9 * 4),
        # three rows in bfloat16 and one copy beside, later two
        ("0.11.1", 3 * 2 + (1 + 8.9) * 4),
        ("0.16.0", 3 * 2 + (2 + 8.9) * 4),
        # six copies while tokens are drawn
        ("0.20.0", 3 * 2 + 6 * 4),
    ],
)
def test_the_rejection_sampler_holds_what_it_is_profiled_with(release: str, logit_bytes: float) -> None:
    """Qwen3-8B, 1,024 requests with a draft; on 0.20.0 public logs had 4.4 GiB of logits, to 0.02 GiB."""
    model, constants = bundled("Qwen/Qwen3-8B"), constants_at(Version(release))
    run = replace(SAMPLED, sequences=1024, v2_model_runner=False, draft_tokens=True)

    peak = activation(model, constants.activation, constants.encoders, run).bytes

    rest = constants.activation.base_mib_v1.middle * MIB + 2048 * 4096 * 2
    assert peak - rest == pytest.approx(1024 * 151_936 * logit_bytes, abs=1)
