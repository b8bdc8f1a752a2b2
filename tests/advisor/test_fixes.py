"""Fixes: each is planned as it is printed, and the nearest refused start has them in a search too."""

import json
import shlex
from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.advisor.fixes.memory_changes import text_only
from service.advisor.plan import plan
from service.advisor.ranking.nearest_refused import nearest_refused
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.application.text.table import render_plan
from service.architecture.context_length import RopeScaling
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.engines.releases import RELEASES
from service.gpus.catalog import gpu_catalog
from service.units import GIB
from tests.advisor.questions import ask
from tests.memory.recorded import altered, bundled

GEMMA = "google/gemma-4-31B-it"


def requested(model: str, gpu: str, release: str, flags: ServeFlags, **more: object) -> PlanRequest:
    read = Model(model, None, "bundled", bundled(model))
    return PlanRequest(read, (gpu_catalog().named(gpu),), EngineChoice.of(release), flags, **more)  # type: ignore[arg-type]


def checked(model: str, gpu: str, release: str, flags: ServeFlags, **more: object) -> Candidate:
    (candidate,) = plan(requested(model, gpu, release, flags, search=False, **more)).plans[0].candidates
    return candidate


def fixes(candidate: Candidate) -> dict[str, Fix]:
    assert candidate.error is not None
    return {fix.change: fix for fix in candidate.error.fixes}


def test_a_range_of_releases_is_named_by_its_first() -> None:
    """vLLM 0.20.2 cannot unify the pages of Gemma 4 in int8; 0.24.0 and every later release can."""
    flags = ServeFlags(
        tensor_parallel_size=2,
        kv_cache_dtype="int8_per_token_head",
        kv_cache_memory_bytes=8 << 30,
        max_model_len=8192,
    )
    fix = fixes(checked(GEMMA, "h100-sxm-80gb", "0.20.2", flags))["vLLM >= 0.24.0"]
    started = {str(each): checked(GEMMA, "h100-sxm-80gb", str(each), flags) for each in RELEASES}

    newer = list(started)[list(started).index("0.24.0") :]
    assert {started[each].verdict for each in newer} == {Verdict.STARTS}
    assert started["0.23.0"].verdict is Verdict.REFUSED
    cache = started["0.24.0"].kv_cache
    assert cache is not None
    assert (fix.tokens, fix.verdict) == (cache.tokens, Verdict.STARTS)


def test_a_share_that_the_free_memory_leaves_is_a_fix() -> None:
    """A second server on a GPU of 79.19 GiB: 40 GiB are free, so at most 50 % can be requested."""
    flags = ServeFlags(max_model_len=4096)
    candidate = checked("Qwen/Qwen3-1.7B", "h100-sxm-80gb", "0.33.0", flags, free_memory_bytes=40 * GIB)

    assert candidate.error is not None
    assert "Free memory on device" in candidate.error.message
    assert "--gpu-memory-utilization 0.5" in fixes(candidate)


@pytest.mark.parametrize("asked", [40_961, 131_072])
def test_a_context_beyond_the_config_is_cut_to_what_it_allows(asked: int) -> None:
    """Qwen3-32B: max_position_embeddings 40,960, as its config says."""
    flags = ServeFlags(tensor_parallel_size=4, max_model_len=asked)
    assert "--max-model-len 40960" in fixes(checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0", flags))


def test_an_unquantized_checkpoint_can_be_quantized_while_it_loads() -> None:
    """32.8 billion parameters: 61 GiB in bfloat16 leave too little of 79 GiB, 31 GiB in 8 bits do not."""
    found = fixes(checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0", ServeFlags()))
    quantized = found["--quantization fp8_per_tensor"]

    assert quantized.tokens is not None
    # At least 25 GiB more for a cache of 64 layers x 2 x 8 heads x 128 elements x 2 bytes a token.
    assert quantized.tokens > 25 * GIB // (64 * 2 * 8 * 128 * 2)
    older = fixes(checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.30.0", ServeFlags()))
    # vLLM 0.31.0, get_quant_config: "--quantization fp8 is deprecated for online quantization".
    assert "--quantization fp8" in older
    assert "--quantization fp8" not in found
    already = checked("Qwen/Qwen3-235B-A22B-FP8", "h100-sxm-80gb", "0.33.0", ServeFlags())
    assert not any("--quantization" in change for change in fixes(already))


def test_encoders_are_left_out_only_where_there_are_some() -> None:
    def left_out(model: str, gpu: str, release: str) -> bool:
        read = requested(model, gpu, release, ServeFlags()).model
        attempts = text_only(read, ServeFlags(), EngineChoice.of(release).rules)
        return [each.words for each in attempts] == ["--language-model-only"]

    assert left_out("Qwen/Qwen2.5-VL-7B-Instruct", "l4-24gb", "0.33.0")
    assert not left_out("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0")
    # The flag came with 0.17.0.
    assert not left_out("Qwen/Qwen2.5-VL-7B-Instruct", "l4-24gb", "0.16.0")


def test_a_search_in_which_nothing_starts_fixes_the_nearest() -> None:
    # 31 billion parameters take 31 GB with 8 bits each, and the card has 24 GiB.
    flags = ServeFlags(tensor_parallel_size=1)
    found = plan(requested(GEMMA, "rtx-3090-24gb", "0.33.0", flags)).plans[0]
    near = nearest_refused(found.candidates)

    assert found.recommended is None
    assert near is not None
    assert near.memory is not None
    assert near.memory.available_kv.bytes == max(
        each.memory.available_kv.bytes for each in found.candidates if each.memory is not None
    )
    assert fixes(near)


def test_fixes_of_a_search_say_everything_that_they_change() -> None:
    """Gemma 3 27B has 27.4 billion parameters: 51 GiB in bfloat16, about 27 in 8 bits, and an L4 has 22 GiB.

    So 16-bit weights need four L4, and 8-bit weights two. In AWQ the linear layers of its 62 layers take 4
    bits, and 20 bits for each 128 inputs: 25.60 billion x (0.5 + 2.5 / 128) B = 13.30 GB; the embedding of
    262,208 x 5,376 takes 2.82 GB and the vision tower about 0.85 GB: 16 GiB together.
    """
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=8192)
    request = requested("google/gemma-3-27b-it", "l4-24gb", "0.33.0", flags)
    named = ("org/gemma-3-27b-it-AWQ-INT4", "org/gemma-3-27b-it-FP8-Dynamic")
    found = plan(replace(request, siblings=named)).plans[0]
    near = nearest_refused(found.candidates)
    assert near is not None
    assert near.flags.quantization == "fp8_per_tensor"
    assert near.error is not None
    offered = fixes(near)

    assert (
        "--quantization fp8_per_tensor"
        in offered["--tensor-parallel-size 2 --quantization fp8_per_tensor"].command
    )
    assert "--quantization" not in offered["--tensor-parallel-size 4"].command
    assert "4-bit" in near.error.notes[0]
    assert near.error.notes[1].startswith(
        "Quantized checkpoints of this model: org/gemma-3-27b-it-AWQ-INT4 (about 16 GiB of weights)."
    )
    assert "FP8-Dynamic" not in near.error.notes[1]
    assert "--quantization fp8_per_tensor" in found.reason


def test_a_model_that_no_common_format_makes_fit_needs_more_gpus() -> None:
    """Llama 3.1 405B: a quarter of 756 GiB is far more than 79 GiB."""
    near = checked("meta-llama/Meta-Llama-3.1-405B", "h100-sxm-80gb", "0.33.0", ServeFlags())
    assert near.error is not None
    assert near.error.notes == (
        "Even weights quantized to fp8 do not fit one GPU of this type: more GPUs are needed.",
    )


def test_the_nearest_start_is_named_with_its_quantized_weights() -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=8192)
    text = render_plan(plan(requested("google/gemma-3-27b-it", "l4-24gb", "0.33.0", flags)))
    assert "Nearest to a start: auto (bfloat16), fp8 weights, context 8,192, 1 GPU" in text


def text_of(model: str, gpu: str) -> str:
    return render_plan(plan(requested(model, gpu, "0.33.0", ServeFlags())))


def test_what_a_slice_cannot_do_takes_a_line() -> None:
    """A process sees one MIG slice, so a world of 2 ranks is refused whatever the cache dtype."""
    text = text_of("Qwen/Qwen3-8B", "a100-sxm-80gb-mig-3g.40gb")
    absent, layouts = (
        next(line for line in text.splitlines() if start in line)
        for start in (" cache dtypes are not for", "Not with")
    )

    assert "fp8_ds_mla" not in absent
    assert layouts.startswith("Not with TP 2, TP 4, TP 8: a process sees one MIG slice only")
    assert "AttentionSelectorConfig" not in text
    assert "World size" not in text


def test_a_size_that_does_not_divide_the_heads_hides_no_absent_dtype() -> None:
    """Qwen2.5-VL-7B has 28 attention heads: 8 ranks are refused for every cache dtype."""
    text = text_of("Qwen/Qwen2.5-VL-7B-Instruct", "l4-24gb")
    assert "AttentionSelectorConfig" not in text
    assert "Not with TP 8: " in text
    assert "TP 1, TP 1:" not in text
    assert "TP 1, TP 1 with fp8 weights: auto" in text


@pytest.mark.parametrize(
    ("given", "model_type", "factor", "original"),
    [
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            "qwen3",
            4.0,
            32_768,
        ),
        # The model cards of Qwen3 publish this for 131,072 tokens.
        (None, "qwen3", 4.0, 32_768),
        (None, "qwen2", 3.2, 40_960),
    ],
)
def test_a_longer_context_is_offered_with_all_keys_that_it_needs(
    given: dict[str, object] | None, model_type: str, factor: float, original: int
) -> None:
    """Since 0.30.0 YaRN's factor is not multiplied with the length, so the length is replaced too.

    Qwen3-8B: max_position_embeddings 40,960 and rope_theta 1,000,000, as its config says.
    """
    overrides = None if given is None else JsonObject.of({"rope_scaling": given})
    read = replace(bundled("Qwen/Qwen3-8B"), model_type=model_type)
    if given is not None:
        context = replace(read.context, scalings=(RopeScaling("yarn", 4.0, 32_768),))
        read = replace(read, context=context)
    flags = ServeFlags(max_model_len=131_072, hf_overrides=overrides)
    request = requested("Qwen/Qwen3-8B", "h100-sxm-80gb", "0.33.0", flags, search=False)
    (refused,) = plan(replace(request, model=replace(request.model, architecture=read))).plans[0].candidates
    offered = [change for change in fixes(refused) if change.startswith("--hf-overrides")]
    assert len(offered) == 1
    said = json.loads(shlex.split(offered[0])[1])

    assert said["max_position_embeddings"] == 131_072
    assert said["rope_parameters"] == {
        "rope_type": "yarn",
        "rope_theta": 1_000_000.0,
        "factor": factor,
        "original_max_position_embeddings": original,
    }
    assert "rope_scaling" not in said
    assert fixes(refused)[offered[0]].verdict is Verdict.STARTS


@pytest.mark.parametrize(
    ("model", "length", "words"),
    [
        ("Qwen/Qwen3-8B", 1_000_000, "more than YaRN is published for"),
        # Its layers have two tables: sliding layers have a base of their own.
        ("google/gemma-3-27b-it", 262_144, "cannot be scaled"),
    ],
)
def test_a_context_that_cannot_be_stretched_says_why(model: str, length: int, words: str) -> None:
    refused = checked(model, "h100-sxm-80gb", "0.33.0", ServeFlags(max_model_len=length))
    assert refused.error is not None
    assert not any(change.startswith("--hf-overrides") for change in fixes(refused))
    assert any(words in note for note in refused.error.notes)


def test_weights_in_the_hosts_memory_are_a_fix_of_the_shortage() -> None:
    """Gemma 3 27B has 51.37 GiB of weights; an L40S has 44.4 GiB, of which 0.92 are the engine's."""
    given = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=8192)
    refused = ask("google/gemma-3-27b-it", "0.33.0", given, gpu="l40s-48gb")
    assert refused.error is not None
    (fix,) = (each for each in refused.error.fixes if each.change.startswith("--cpu-offload-gb"))
    moved = int(fix.change.split()[1])
    assert 51.37 - 0.92 * 44.4 < moved < 51.37 / 2
    assert any("many times slower" in note for note in refused.error.notes)
    again = ask("google/gemma-3-27b-it", "0.33.0", replace(given, cpu_offload_gb=moved), gpu="l40s-48gb")
    assert again.verdict is Verdict.STARTS


def test_no_more_than_half_of_the_weights_leave_the_gpu() -> None:
    """Of 51.37 GiB at least 28 would have to cross the bus at every step of an RTX 4090."""
    given = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=8192)
    refused = ask("google/gemma-3-27b-it", "0.33.0", given, gpu="rtx-4090-24gb")
    assert not any("--cpu-offload-gb" in each for each in fixes(refused))


def offered_for_one_card(release: str) -> Candidate:
    """Gemma 3 27B on one card: 51.4 GiB in bfloat16, 27.3 in 8 bits, and a share of 0.92 of 23.52 GiB."""
    found = plan(requested("google/gemma-3-27b-it", "rtx-4090-24gb", release, ServeFlags()).with_count(1))
    near = nearest_refused(found.plans[0].candidates)
    assert near is not None
    return near


def test_weights_become_4_bits_while_they_load_in_releases_that_can() -> None:
    """vLLM 0.28.0 removed bitsandbytes from QuantizationMethods (layers/quantization/__init__.py)."""
    assert any("--quantization bitsandbytes" in each for each in fixes(offered_for_one_card("0.27.1")))
    assert not any("bitsandbytes" in each for each in fixes(offered_for_one_card("0.28.0")))


def test_a_checkpoint_with_4_bit_weights_is_planned() -> None:
    """25.6 billion weights of 4 bits, a 16-bit scale for 128 of them, 1.83 billion of 16 bits: 15.7 GiB."""
    error = offered_for_one_card("0.33.0").error
    assert error is not None
    (note,) = (each for each in error.notes if "W4A16" in each)
    words = note.split()
    gib = float(words[words.index("GiB") - 1])
    by_hand = (25.6e9 * (4 + 16 / 128) / 8 + (1.41e9 + 0.42e9) * 2) / 2**30
    assert by_hand < gib < by_hand * 1.05
    assert "fits rtx-4090-24gb with --kv-cache-dtype fp8" in note


GROUPS = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
PACKED = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": 128,
                "symmetric": True,
                "dynamic": False,
            },
        }
    },
}


@pytest.mark.parametrize(
    ("model", "quantization", "fix"),
    [
        # A width of 13,824 is 108 groups: 27 on each of four ranks, 13.5 on each of eight.
        ("meta-llama/Llama-2-13b-hf", GROUPS, "--tensor-parallel-size 4"),
        # An expert's width of 768 is six groups, which eight ranks cut; whole experts are not cut.
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", PACKED, "--enable-expert-parallel"),
    ],
)
def test_the_most_ranks_that_divide_groups_are_a_fix(
    model: str, quantization: dict[str, object], fix: str
) -> None:
    read = Model(model, None, "bundled", altered(model, quantization=quantization))
    flags = ServeFlags(tensor_parallel_size=8, max_model_len=4096)
    gpus = (gpu_catalog().named("h100-sxm-80gb"),)
    split = PlanRequest(read, gpus, EngineChoice.of("0.33.0"), flags, search=False)
    (candidate,) = plan(split).plans[0].candidates

    assert fix in fixes(candidate)
    assert fixes(candidate)[fix].verdict is Verdict.STARTS


def test_weights_rounded_to_four_bits_fit_one_card() -> None:
    """Gemma 3 27B on one RTX 4090: 27.4 billion parameters take 26 GiB in 8 bits, the card has 23.5."""
    request = requested("google/gemma-3-27b-it", "rtx-4090-24gb", "0.33.0", ServeFlags())
    found = plan(request.with_count(1)).plans[0]
    near = nearest_refused(found.candidates)
    assert near is not None
    assert near.error is not None
    first, *others = near.error.fixes

    assert "--quantization mxfp4" in first.command
    # SigLIP's width of 4,304 is no multiple of 64, so the engine leaves its MLPs in 16 bits.
    assert "--language-model-only" not in first.command
    assert not any("parallel-size" in each.change for each in (first, *others))
    assert any("without calibration" in note for note in near.error.notes)
    # Online MXFP4 came with 0.28.0.
    older = checked("google/gemma-3-27b-it", "rtx-4090-24gb", "0.27.1", ServeFlags(max_model_len=2048))
    assert not any("mxfp4" in change for change in fixes(older))


@pytest.mark.parametrize(
    ("model", "inputs", "layer"),
    [
        # 3,420 = 106 x 32 + 28 and 4,304 = 134 x 32 + 16.
        ("Qwen/Qwen2.5-VL-7B-Instruct", 3420, "visual.blocks.0.mlp.down_proj"),
        ("Qwen/Qwen3-VL-8B-Instruct", 4304, "visual.blocks.0.mlp.linear_fc2"),
    ],
)
def test_encoders_whose_sizes_end_inside_a_block_are_not_rounded_to_four_bits(
    model: str, inputs: int, layer: str
) -> None:
    """vLLM 0.28.0 to 0.33.0, Mxfp4OnlineLinearMethod.create_weights."""
    flags = ServeFlags(quantization="mxfp4", max_model_len=4096)
    refused = checked(model, "h100-sxm-80gb", "0.33.0", flags)

    assert refused.error is not None
    assert refused.error.message == (
        f"MXFP4 requires input_size_per_partition ({inputs}) to be divisible by 32."
    )
    assert layer in refused.error.detail
    assert fixes(refused)["--language-model-only"].verdict is Verdict.STARTS


@pytest.mark.parametrize(("release", "refused"), [("0.15.1", False), ("0.16.0", True), ("0.33.0", True)])
def test_weights_without_data_cannot_be_moved_to_the_host(release: str, refused: bool) -> None:
    """vLLM 0.16.0, Fp8OnlineLinearMethod: weights lie on the meta device when they are copied."""
    flags = ServeFlags(quantization="fp8", cpu_offload_gb=2, max_model_len=2048)
    found = checked("Qwen/Qwen3-8B", "rtx-4090-24gb", release, flags)

    assert (found.error is not None and "meta tensor" in found.error.message) is refused


@pytest.mark.parametrize(("release", "starts"), [("0.21.0", True), ("0.27.1", False), ("0.28.0", True)])
def test_the_second_model_runner_offloaded_nothing_at_first(release: str, starts: bool) -> None:
    """Qwen3-8B takes 15.3 GiB in 16 bits, more than a T4's 14.6. V2 runs it since 0.22.0."""
    flags = ServeFlags(cpu_offload_gb=8, max_model_len=2048, dtype="float16")
    found = checked("Qwen/Qwen3-8B", "t4-16gb", release, flags)

    assert (found.verdict is not Verdict.REFUSED) is starts


@pytest.mark.parametrize(
    ("model", "gpu", "changes"),
    [
        # 13.7 GiB of weights: 0.92 of 15.48 GiB leave half a GiB for activations and cache, 0.95 one GiB.
        ("openai/gpt-oss-20b", "rtx-5060-ti-16gb", {"--gpu-memory-utilization", "--enforce-eager"}),
        # 9 billion parameters take 9 GiB in 8 bits, and the card has 11.5: 4 bits, and no encoders.
        ("Qwen/Qwen3.5-9B", "rtx-5070-12gb", {"--quantization", "--language-model-only"}),
    ],
)
def test_one_small_card_is_helped_by_several_changes_at_once(model: str, gpu: str, changes: set[str]) -> None:
    request = requested(model, gpu, "0.33.0", ServeFlags())
    near = nearest_refused(plan(request.with_count(1)).plans[0].candidates)
    assert near is not None
    first = next(iter(fixes(near).values()))
    words = shlex.split(first.command)

    assert changes | {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"} <= set(words)
    assert "--tensor-parallel-size" not in words
    # Asked by itself, the start does what the fix says.
    asked = dict(zip(words, [*words[1:], ""], strict=True))
    flags = ServeFlags(
        max_model_len=int(asked["--max-model-len"]),
        max_num_seqs=int(asked["--max-num-seqs"]),
        max_num_batched_tokens=int(asked["--max-num-batched-tokens"]),
        gpu_memory_utilization=float(asked["--gpu-memory-utilization"]),
        quantization=asked.get("--quantization"),
        language_model_only="--language-model-only" in words,
        enforce_eager=True,
    )
    alone = checked(model, gpu, "0.33.0", flags)
    assert alone.kv_cache is not None
    assert (alone.verdict, alone.kv_cache.tokens) == (first.verdict, first.tokens)


def test_several_changes_are_not_offered_where_one_helps() -> None:
    found = fixes(checked("Qwen/Qwen3-32B", "h100-sxm-80gb", "0.33.0", ServeFlags()))
    assert not any("--enforce-eager" in change for change in found)
