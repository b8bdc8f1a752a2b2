"""Caches of 16-bit floats that are not the model's, or that no kernel of the release writes."""

from contextlib import suppress
from functools import cache

import pytest

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.request.plan_request import (
    EngineChoice,
    Model,
    Objective,
    PlanRequest,
)
from service.architecture.reading import UnknownArchitecture
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.startups_models import find_model
from tests.advisor.questions import (
    DEEPSEEK,
    GEMMA,
    LLAMA,
    ask,
    ask_all,
)

HALVES = {"float16", "bfloat16"}
FP8_CHECKPOINT = "nvidia/Llama-3.1-70B-Instruct-FP8"

NO_CUDA_KERNEL = ("RuntimeError", "Unsupported data type of kv cache: {}")
"""vLLM 0.11.1 to 0.19.1, csrc/quantization/w8a8/fp8/nvidia/quant_utils.cuh, DISPATCH_BY_KV_CACHE_DTYPE."""
NO_TRITON_KERNEL = ("AssertionError", "unsupported kv_cache_dtype (str), got {}.")
"""vLLM 0.11.0 to 0.22.1, triton_reshape_and_cache_flash.py."""


def specified(model: str, version: str, dtype: str, gpu: str = "h100-sxm-80gb", **flags: object) -> Candidate:
    requested = ServeFlags(tensor_parallel_size=8, kv_cache_dtype=dtype, **flags)  # type: ignore[arg-type]
    return ask(model, version, requested, gpu=gpu)


@pytest.mark.parametrize(
    ("model", "version", "dtype", "backend", "failure"),
    [
        # Read in each release's own source: the CUDA kernels until 0.19.1, the Triton kernel until 0.22.1.
        (LLAMA, "0.15.0", "bfloat16", "FLASH_ATTN", NO_CUDA_KERNEL),
        (LLAMA, "0.19.1", "bfloat16", "FLASH_ATTN", NO_CUDA_KERNEL),
        (LLAMA, "0.19.1", "float16", "FLASHINFER", NO_CUDA_KERNEL),
        (DEEPSEEK, "0.19.1", "bfloat16", None, NO_CUDA_KERNEL),
        (LLAMA, "0.20.0", "bfloat16", "FLASH_ATTN", None),
        (LLAMA, "0.20.0", "bfloat16", "FLASHINFER", None),
        (DEEPSEEK, "0.20.0", "bfloat16", None, None),
        (LLAMA, "0.17.1", "bfloat16", "TRITON_ATTN", NO_TRITON_KERNEL),
        (LLAMA, "0.20.2", "float16", "TRITON_ATTN", NO_TRITON_KERNEL),
        (GEMMA, "0.22.1", "bfloat16", None, NO_TRITON_KERNEL),
        (LLAMA, "0.23.0", "bfloat16", "TRITON_ATTN", None),
        (GEMMA, "0.23.0", "bfloat16", None, None),
    ],
)
def test_the_kernels_that_write_the_cache_decide(
    model: str, version: str, dtype: str, backend: str | None, failure: tuple[str, str] | None
) -> None:
    candidate = specified(model, version, dtype, "h200-sxm-141gb", attention_backend=backend)

    if failure is None:
        assert candidate.verdict is Verdict.STARTS
        return
    assert candidate.verdict is Verdict.UNCERTAIN
    assert not candidate.may_serve
    words = [each for each in candidate.warnings if "fails when attention first runs" in each]
    assert words
    assert words[0].endswith(f"{failure[0]}: {failure[1].format(dtype)}")
    assert any("each tried by a dry run: --kv-cache-dtype auto" in each for each in candidate.warnings)
    # The engine sizes its cache before it fails.
    assert candidate.kv_cache is not None


def test_deepseek_v32_turns_bfloat16_into_auto_and_so_is_written() -> None:
    """vLLM 0.13.0, DeepseekV32ForCausalLM.verify_and_update_config."""
    assert specified("deepseek-ai/DeepSeek-V3.2", "0.13.0", "bfloat16", gpu="h200-sxm-141gb").may_serve


@pytest.mark.parametrize("version", ["0.20.0", "0.28.0", "0.32.0"])
def test_a_cache_of_other_floats_is_warned_about_first_and_never_a_plain_yes(version: str) -> None:
    candidate = specified(LLAMA, version, "float16")

    assert candidate.verdict is Verdict.UNCERTAIN
    assert not candidate.may_serve
    assert "write the bits of bfloat16 and read them as float16" in candidate.warnings[0]
    assert "pull request 54338" in candidate.warnings[0]
    assert "nonsense" in candidate.quality.effect


def test_the_models_own_floats_are_not_warned_about() -> None:
    candidate = specified(LLAMA, "0.28.0", "bfloat16")
    flags = ServeFlags(tensor_parallel_size=8, kv_cache_dtype="float16", dtype="float16")
    halved = ask(LLAMA, "0.28.0", flags)

    assert candidate.verdict is halved.verdict is Verdict.STARTS
    assert not any("write the bits" in words for words in (*candidate.warnings, *halved.warnings))


def test_0_33_refuses_such_a_cache_itself() -> None:
    error = specified(LLAMA, "0.33.0", "float16").error

    assert error is not None
    assert "is incompatible with dtype" in error.message


def _flaws(found: GpuPlan, model: Model) -> list[str]:
    """Return where a plan names a cache of 16-bit floats that the model does not compute in."""
    flaws = []
    for candidate in found.candidates:
        start = candidate.start
        other = start is not None and candidate.kv_cache_dtype in HALVES - {start.engine_config.dtype}
        if other and candidate.error is None and not candidate.fails:
            flaws.append(f"{model.id}: {candidate.kv_cache_dtype} is a candidate")
    best = found.recommended
    if best is None:
        return flaws
    assert best.start is not None
    others = HALVES - {best.start.engine_config.dtype}
    if best.kv_cache_dtype in others:
        flaws.append(f"{model.id}: {best.command}")
    flaws.extend(
        f"{model.id}: lever {lever.change}"
        for lever in found.levers
        if lever.flag == "kv_cache_dtype" and lever.value in others
    )
    flaws.extend(
        f"{model.id}: fix {fix}"
        for candidate in found.candidates
        if candidate.error is not None
        for fix in candidate.error.fix
        if any(fix == f"--kv-cache-dtype {dtype}" for dtype in others)
    )
    flaws.extend(f"{model.id}: {found.reason}" for dtype in others if f"{dtype} would hold" in found.reason)
    return flaws


@cache
def _models() -> tuple[Model, ...]:
    """Return every bundled model whose architecture is modelled."""
    found = []
    for name in BundledSnapshot().ids():
        with suppress(UnknownArchitecture):
            found.append(Model(name, None, "bundled", bundled_architecture(name)))
    assert len(found) >= 130
    return tuple(found)


GPUS = (
    "h100-sxm-80gb",
    "b200-180gb",
    "a100-sxm-80gb",
    "rtx-pro-6000-blackwell-workstation-96gb",
    "l40s-48gb",
    "t4-16gb",
)
"""One for each compute capability by which backends differ; a T4 computes in float16."""
VERSIONS = (
    "0.18.0",
    "0.19.1",
    "0.20.2",
    "0.22.1",
    "0.23.0",
    "0.25.1",
    "0.28.0",
    "0.30.0",
    "0.32.0",
    "0.33.0",
)
"""Releases since float16 is a cache dtype whose kernels and backends differ."""


@pytest.mark.parametrize("version", VERSIONS)
def test_no_advice_names_floats_that_are_not_the_models(version: str) -> None:
    # Every model is asked about on two of the sixty pairs of a release and a GPU, and one that brings a
    # scheme for its cache, which had such advice, on one GPU with every release.
    place = VERSIONS.index(version)
    flaws = []
    for number, model in enumerate(_models()):
        quantization = model.architecture.quantization
        scheme = quantization is not None and quantization.cache_algorithm is not None
        for at, gpu in enumerate(GPUS):
            pair = at * len(VERSIONS) + place
            if (number - pair) % 30 == 0 or (scheme and at == place % len(GPUS)):
                # Eight ranks hold most models; other sizes bring no other dtypes.
                flags = ServeFlags(tensor_parallel_size=8)
                request = PlanRequest(model, (find_gpu(gpu),), EngineChoice.of(version), flags)
                flaws += _flaws(plan(request).plans[0], model)

    assert flaws == []


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("version", ["0.19.1", "0.22.1", "0.28.0"])
@pytest.mark.parametrize("name", [FP8_CHECKPOINT, "google/gemma-3-27b-it"])
def test_no_lever_nor_fix_names_them_either(name: str, version: str, objective: Objective) -> None:
    model = find_model(name).model
    for flags in (ServeFlags(), ServeFlags(kv_cache_dtype="fp8_inc")):
        request = PlanRequest(
            model,
            (find_gpu("h100-sxm-80gb"),),
            EngineChoice.of(version),
            flags,
            objective=objective,
            with_levers=True,
        )
        assert _flaws(plan(request).plans[0], model) == []


@pytest.mark.parametrize("version", ["0.20.2", "0.28.0", "0.33.0"])
def test_a_checkpoint_that_names_its_cache_is_served_as_it_was_published(version: str) -> None:
    """Commands published for such checkpoints say fp8 more often than nothing (vllm-project/recipes)."""
    best = ask_all(FP8_CHECKPOINT, version).recommended

    assert best is not None
    assert best.kv_cache_dtype == "fp8"
    assert best.resolved_kv_cache_dtype in {"fp8", "fp8_e4m3"}
    assert best.quality.loss == 0
    assert "as its makers publish it" in best.quality.effect


def test_an_fp8_cache_of_a_checkpoint_without_a_scheme_is_not_called_lossless() -> None:
    assert specified(LLAMA, "0.28.0", "fp8").quality.loss > 0


def test_every_name_of_one_stored_format_has_its_quality() -> None:
    """vLLM 0.25.1, models/deepseek_v4/attention.py: fp8* becomes fp8_ds_mla, and since 0.30 auto does too."""
    found = ask_all("deepseek-ai/DeepSeek-V4-Flash", "0.33.0", gpu="h200-sxm-141gb")
    starting = [candidate for candidate in found.candidates if candidate.verdict is Verdict.STARTS]

    assert {candidate.kv_cache_dtype for candidate in starting} == {"fp8"}
    assert {candidate.resolved_kv_cache_dtype for candidate in starting} == {"fp8_ds_mla"}
    assert len({candidate.quality for candidate in starting}) == 1
    assert starting[0].quality.loss > 0
    assert found.recommended is not None
    assert found.recommended.kv_cache_dtype == "fp8"


def test_fewer_than_8_bits_are_not_the_price_of_fewer_gpus() -> None:
    """Experts serve Qwen2.5 32B at its full length of 32,768 on one H100 or two; none takes 3 bits.

    Weights of 61.0 GiB and 32,768 x 256 KiB of cache are 69.0 of 72.8 GiB.
    """
    best = ask_all("Qwen/Qwen2.5-32B-Instruct", "0.28.0").recommended

    assert best is not None
    assert best.quality.bits == 16
    assert best.tensor_parallel_size == 2 or (best.flags.max_model_len or 32_768) >= 24_576
