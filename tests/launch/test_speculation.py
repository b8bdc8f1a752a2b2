"""Which draft a start would use, and what releases say to it."""

from typing import Any

import pytest
from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnavailableFlag, check_flags, rules_for
from service.engines.speculation import InvalidSpeculation, SpeculativeConfig
from service.gpus.catalog import find_gpu
from service.launch.resolution import resolve
from service.launch.serving import Serving
from service.launch.speculation import UnmodelledSpeculation
from tests.kv_cache.drafts import drafted

QWEN, DEEPSEEK, LLAMA = (
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-8B",
)
SMALL = "meta-llama/Llama-3.2-1B-Instruct"
EAGLE, EAGLE3 = "drafts/EAGLE-LLaMA3.1-Instruct-8B", "drafts/EAGLE3-LLaMA3.1-Instruct-8B"


def serving(model: str, release: str, guessing: dict[str, Any], **flags: Any) -> Serving:  # noqa: ANN401
    config = SpeculativeConfig.parse({"num_speculative_tokens": 2, **guessing})
    architecture = drafted(model, guessing.get("model"))
    given = ServeFlags(speculative_config=config, **flags)
    return resolve(architecture, given, rules_for(Version(release)), find_gpu("h100-sxm-80gb"))


def method(model: str, release: str, guessing: dict[str, Any]) -> tuple[str, str | None]:
    found = serving(model, release, guessing).speculation
    assert found is not None
    return found.method, None if found.draft is None else found.draft.class_name


@pytest.mark.parametrize(
    ("model", "release", "guessing", "expected"),
    [
        (DEEPSEEK, "0.10.2", {}, ("mtp", "DeepSeekMTPModel")),
        (DEEPSEEK, "0.10.2", {"method": "deepseek_mtp"}, ("mtp", "DeepSeekMTPModel")),
        (DEEPSEEK, "0.33.0", {"method": "mtp"}, ("mtp", "DeepSeekMTPModel")),
        (QWEN, "0.12.0", {"method": "qwen3_next_mtp"}, ("mtp", "Qwen3NextMTP")),
        (LLAMA, "0.12.0", {"model": EAGLE}, ("eagle", "EagleLlamaForCausalLM")),
        (LLAMA, "0.32.0", {"model": EAGLE3}, ("eagle3", "Eagle3LlamaForCausalLM")),
        (LLAMA, "0.32.0", {"model": SMALL}, ("draft_model", "LlamaForCausalLM")),
        (LLAMA, "0.15.0", {"model": SMALL, "method": "draft_model"}, ("draft_model", "LlamaForCausalLM")),
        (LLAMA, "0.32.0", {"model": "ngram"}, ("ngram", None)),
        (LLAMA, "0.32.0", {"method": "suffix", "num_speculative_tokens": None}, ("suffix", None)),
    ],
)
def test_methods_are_named_or_found(
    model: str, release: str, guessing: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    if guessing.get("model") == "ngram":
        config = SpeculativeConfig(model="ngram", num_speculative_tokens=2)
        given = ServeFlags(speculative_config=config)
        found = resolve(drafted(model), given, rules_for(Version(release)), find_gpu("h100-sxm-80gb"))
        assert found.speculation is not None
        assert found.speculation.method == "ngram"
        return
    assert method(model, release, guessing) == expected


@pytest.mark.parametrize(
    ("model", "release", "guessing", "error", "words"),
    [
        (LLAMA, "0.32.0", {"method": "mtp"}, "NotImplementedError", "Unsupported speculative method: 'mtp'"),
        (LLAMA, "0.13.0", {"model": SMALL}, "NotImplementedError", "draft model is not supported yet"),
        (LLAMA, "0.16.0", {"model": SMALL}, "NotImplementedError", "Unsupported speculative method: 'None'"),
        (LLAMA, "0.32.0", {"method": "eagle"}, "ValidationError", "without speculative model"),
        (LLAMA, "0.10.2", {"method": "suffix"}, "ValidationError", "Input should be 'deepseek_mtp'"),
        (LLAMA, "0.33.0", {"method": "medusa"}, "ValidationError", "Input should be"),
        (DEEPSEEK, "0.10.2", {"method": "mtp"}, "ValidationError", "Input should be"),
        ("openai/gpt-oss-20b", "0.10.2", {"method": "eagle3", "model": "drafts/EAGLE3-gpt-oss-20b"},
         "ValidationError", "eagle3 is only supported for"),
        (DEEPSEEK, "0.32.0", {"method": "mtp", "num_speculative_tokens": None}, "ValidationError",
         "num_speculative_tokens must be provided"),
        (LLAMA, "0.32.0", {"method": "ngram", "prompt_lookup_min": 4, "prompt_lookup_max": 2},
         "ValidationError", "prompt_lookup_min=4 must be <= prompt_lookup_max=2"),
        (LLAMA, "0.32.0", {"model": EAGLE, "draft_tensor_parallel_size": 3}, "ValidationError",
         "speculative_draft_tensor_parallel_size=3"),
    ],
)  # fmt: skip
def test_releases_refuse_what_they_cannot_use(
    model: str, release: str, guessing: dict[str, Any], error: str, words: str
) -> None:
    with pytest.raises(EngineRefusal, match=words.replace("(", r"\(")) as caught:
        serving(model, release, guessing)
    assert caught.value.type == error


@pytest.mark.parametrize(
    ("release", "guessing", "batches"),
    [
        ("0.13.0", {"model": EAGLE}, 1),
        ("0.14.0", {"model": EAGLE}, 2),
        ("0.14.0", {"method": "ngram"}, 1),
        ("0.17.0", {"model": SMALL}, 1),
        ("0.28.0", {"model": SMALL}, 2),
        ("0.18.0", {"method": "ngram_gpu"}, 2),
        ("0.32.0", {"method": "ngram"}, 1),
        ("0.33.0", {"method": "ngram"}, 2),
        ("0.33.0", {"method": "suffix"}, 1),
        ("0.32.0", {"model": EAGLE, "disable_padded_drafter_batch": True}, 1),
    ],
)
def test_only_some_methods_are_scheduled_ahead(release: str, guessing: dict[str, Any], batches: int) -> None:
    assert serving(LLAMA, release, guessing).concurrent_batches == batches


@pytest.mark.parametrize(
    ("release", "guessing", "error"),
    [
        ("0.10.2", {"model": EAGLE}, "ValueError"),
        ("0.13.0", {"method": "ngram"}, "ValidationError"),
        ("0.32.0", {"method": "suffix"}, "ValidationError"),
    ],
)
def test_scheduling_ahead_that_is_asked_for_is_refused(
    release: str, guessing: dict[str, Any], error: str
) -> None:
    with pytest.raises(EngineRefusal, match=r"(?i)async scheduling") as caught:
        serving(LLAMA, release, guessing, async_scheduling=True)
    assert caught.value.type == error


@pytest.mark.parametrize(("release", "length"), [("0.32.0", 131072), ("0.33.0", 4096)])
def test_a_whole_draft_limits_the_context_at_last(release: str, length: int) -> None:
    found = serving(LLAMA, release, {"model": SMALL, "max_model_len": 4096})
    assert found.max_model_len == length


@pytest.mark.parametrize(("release", "refused"), [("0.19.1", False), ("0.20.0", True), ("0.28.0", False)])
def test_drafting_must_leave_tokens_to_schedule(release: str, refused: bool) -> None:
    flags = {"max_num_batched_tokens": 512, "max_num_seqs": 512}
    if not refused:
        assert serving(LLAMA, release, {"model": SMALL}, **flags).max_num_batched_tokens == 512
        return
    with pytest.raises(EngineRefusal, match="does not allow any tokens to be scheduled"):
        serving(LLAMA, release, {"model": SMALL}, **flags)


@pytest.mark.parametrize(
    ("release", "mode"), [("0.19.1", "all"), ("0.20.0", "align"), ("0.21.0", "align"), ("0.22.0", "all")]
)
def test_guesses_change_which_states_are_kept(release: str, mode: str) -> None:
    model = "NemotronHForCausalLM/Nemotron-H-8B-Base-8K"
    found = serving(model, release, {"method": "ngram"}, enable_prefix_caching=True)
    assert found.mamba_cache_mode == mode


def test_aligned_states_refused_guesses_at_first() -> None:
    with pytest.raises(EngineRefusal, match="not compatible with speculative decoding"):
        serving(QWEN, "0.15.1", {"method": "ngram"}, enable_prefix_caching=True)


@pytest.mark.parametrize(
    ("model", "guessing", "reason"),
    [
        (LLAMA, {"method": "eagle", "model": "openai/gpt-oss-20b"}, "as whole models alone"),
        ("derived/XiaomiMiMo/MiMo-V2-Flash", {"method": "dflash", "model": SMALL}, "method dflash"),
        (LLAMA, {"method": "medusa", "model": SMALL}, "Medusa"),
        (LLAMA, {"model": SMALL, "quantization": "fp8"}, "quantized by fp8"),
    ],
)
def test_what_is_not_modelled_says_so(model: str, guessing: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnmodelledSpeculation, match=reason):
        serving(model, "0.32.0", guessing)


def test_unknown_keys_name_those_that_are_spelt_alike() -> None:
    with pytest.raises(InvalidSpeculation) as caught:
        SpeculativeConfig.parse({"num_speculative_token": 2})
    assert caught.value.nearest[0] == "num_speculative_tokens"
    with pytest.raises(InvalidSpeculation, match="not of type int"):
        SpeculativeConfig.parse({"num_speculative_tokens": True})


def test_keys_that_a_release_lacks_are_named() -> None:
    flags = ServeFlags(speculative_config=SpeculativeConfig(parallel_drafting=True))
    with pytest.raises(UnavailableFlag, match="'parallel_drafting' in --speculative-config"):
        check_flags(flags, Version("0.15.1"))
    check_flags(flags, Version("0.16.0"))
