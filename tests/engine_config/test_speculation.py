"""Which draft a start would use, and what releases say to it."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.model import DraftCheckpoint, DraftSources, ModelArchitecture
from service.architecture.reading import read_architecture
from service.engine_config.engine_config import EngineConfig
from service.engine_config.resolution import resolve_engine_config
from service.engine_config.speculation import Speculation, UnmodelledSpeculation
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnavailableFlag, check_flags, rules_for
from service.engines.speculative_config import InvalidSpeculation, SpeculativeConfig
from service.gpus.catalog import find_gpu
from tests.kv_cache.drafts import documents, drafted

QWEN, DEEPSEEK, LLAMA = (
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V3",
    "meta-llama/Llama-3.1-8B",
)
SMALL = "meta-llama/Llama-3.2-1B-Instruct"
MAMBA = "MambaForCausalLM/mamba-2.8b-hf"
EAGLE, EAGLE3 = "drafts/EAGLE-LLaMA3.1-Instruct-8B", "drafts/EAGLE3-LLaMA3.1-Instruct-8B"


def engine_config(model: str, release: str, speculative: dict[str, Any], **flags: Any) -> EngineConfig:  # noqa: ANN401
    config = SpeculativeConfig.parse({"num_speculative_tokens": 2, **speculative})
    architecture = drafted(model, speculative.get("model"))
    given = ServeFlags(speculative_config=config, **flags)
    return resolve_engine_config(architecture, given, rules_for(Version(release)), find_gpu("h100-sxm-80gb"))


def speculate(architecture: ModelArchitecture, release: str, config: SpeculativeConfig) -> Speculation | None:
    given, rules = ServeFlags(speculative_config=config), rules_for(Version(release))
    return resolve_engine_config(architecture, given, rules, find_gpu("h200-sxm-141gb")).speculation


def method(model: str, release: str, speculative: dict[str, Any]) -> tuple[str, str | None]:
    found = engine_config(model, release, speculative).speculation
    assert found is not None
    return found.method, None if found.draft is None else found.draft.class_name


@pytest.mark.parametrize(
    ("model", "release", "speculative", "expected"),
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
    model: str, release: str, speculative: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    if speculative.get("model") == "ngram":
        config = SpeculativeConfig(model="ngram", num_speculative_tokens=2)
        given = ServeFlags(speculative_config=config)
        found = resolve_engine_config(
            drafted(model), given, rules_for(Version(release)), find_gpu("h100-sxm-80gb")
        )
        assert found.speculation is not None
        assert found.speculation.method == "ngram"
        return
    assert method(model, release, speculative) == expected


@pytest.mark.parametrize(("release", "refused"), [("0.29.0", False), ("0.30.0", True), ("0.31.0", False)])
def test_one_release_splits_the_experts_of_drafts_that_have_none(release: str, refused: bool) -> None:
    """vLLM 0.30.0 gives the draft the model's expert parallelism, and 0.31.0 only a draft with experts."""
    draft = {"method": "eagle3", "model": "drafts/EAGLE3-gpt-oss-20b"}
    if refused:
        with pytest.raises(EngineRefusal, match="Number of experts in the model must be greater than 0"):
            engine_config("openai/gpt-oss-20b", release, draft, enable_expert_parallel=True)
    else:
        engine_config("openai/gpt-oss-20b", release, draft, enable_expert_parallel=True)
    engine_config("openai/gpt-oss-20b", release, draft)


@pytest.mark.parametrize(
    ("model", "release", "speculative", "error", "words"),
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
        (LLAMA, "0.32.0", {"method": "ngram", "num_speculative_tokens": None}, "ValidationError",
         "num_speculative_tokens must be provided"),
        (LLAMA, "0.32.0", {"model": EAGLE, "num_speculative_tokens": None}, "ValidationError",
         "num_speculative_tokens must be provided"),
        (LLAMA, "0.32.0", {"method": "custom_class"}, "ValidationError",
         "method='custom_class' requires 'model' to contain the custom proposer module path"),
    ],
)  # fmt: skip
def test_releases_refuse_what_they_cannot_use(
    model: str, release: str, speculative: dict[str, Any], error: str, words: str
) -> None:
    with pytest.raises(EngineRefusal, match=words.replace("(", r"\(")) as caught:
        engine_config(model, release, speculative)
    assert caught.value.type == error


@pytest.mark.parametrize(
    ("release", "speculative", "batches"),
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
def test_only_some_methods_are_scheduled_ahead(
    release: str, speculative: dict[str, Any], batches: int
) -> None:
    assert engine_config(LLAMA, release, speculative).concurrent_batches == batches


@pytest.mark.parametrize(
    ("release", "speculative", "error"),
    [
        ("0.10.2", {"model": EAGLE}, "ValueError"),
        ("0.13.0", {"method": "ngram"}, "ValidationError"),
        ("0.32.0", {"method": "suffix"}, "ValidationError"),
    ],
)
def test_scheduling_ahead_that_is_asked_for_is_refused(
    release: str, speculative: dict[str, Any], error: str
) -> None:
    with pytest.raises(EngineRefusal, match=r"(?i)async scheduling") as caught:
        engine_config(LLAMA, release, speculative, async_scheduling=True)
    assert caught.value.type == error


@pytest.mark.parametrize(("release", "length"), [("0.32.0", 131072), ("0.33.0", 4096)])
def test_a_whole_draft_limits_the_context_at_last(release: str, length: int) -> None:
    found = engine_config(LLAMA, release, {"model": SMALL, "max_model_len": 4096})
    assert found.max_model_len == length


@pytest.mark.parametrize(("release", "refused"), [("0.19.1", False), ("0.20.0", True), ("0.28.0", False)])
def test_drafting_must_leave_tokens_to_schedule(release: str, refused: bool) -> None:
    flags = {"max_num_batched_tokens": 512, "max_num_seqs": 512}
    if not refused:
        assert engine_config(LLAMA, release, {"model": SMALL}, **flags).max_num_batched_tokens == 512
        return
    with pytest.raises(EngineRefusal, match="does not allow any tokens to be scheduled"):
        engine_config(LLAMA, release, {"model": SMALL}, **flags)


@pytest.mark.parametrize(
    ("release", "mode"), [("0.19.1", "all"), ("0.20.0", "align"), ("0.21.0", "align"), ("0.22.0", "all")]
)
def test_guesses_change_which_states_are_kept(release: str, mode: str) -> None:
    model = "NemotronHForCausalLM/Nemotron-H-8B-Base-8K"
    found = engine_config(model, release, {"method": "ngram"}, enable_prefix_caching=True)
    assert found.mamba_cache_mode == mode


def test_aligned_states_refused_guesses_at_first() -> None:
    with pytest.raises(EngineRefusal, match="not compatible with speculative decoding"):
        engine_config(QWEN, "0.15.1", {"method": "ngram"}, enable_prefix_caching=True)


@pytest.mark.parametrize(
    ("model", "speculative", "reason"),
    [
        (LLAMA, {"method": "eagle", "model": "openai/gpt-oss-20b"}, "as whole models alone"),
        ("derived/XiaomiMiMo/MiMo-V2-Flash", {"method": "dflash", "model": SMALL}, "method dflash"),
        (LLAMA, {"method": "medusa", "model": SMALL}, "Medusa"),
        (LLAMA, {"model": SMALL, "quantization": "fp8"}, "quantized by fp8"),
        (LLAMA, {"model": DEEPSEEK}, "prediction layers in a checkpoint of their own"),
        (LLAMA, {"model": MAMBA}, "a draft with recurrent layers"),
        (LLAMA, {"method": "extract_hidden_states"}, "method extract_hidden_states"),
        (LLAMA, {"method": "extract_hidden_states", "model": SMALL}, "method extract_hidden_states"),
        (LLAMA, {"method": "dspark"}, "method dspark"),
    ],
)
def test_what_is_not_modelled_says_so(model: str, speculative: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnmodelledSpeculation, match=reason):
        engine_config(model, "0.32.0", speculative)


@pytest.mark.parametrize(
    ("checkpoint", "reason"),
    [
        (None, "the config of the draft 'a/b' is not at hand"),
        (DraftCheckpoint("a/b", "b", unread="no family of BForCausalLM"), "no family of BForCausalLM"),
        (DraftCheckpoint("a/b", "b"), "a draft of class b"),
    ],
)
def test_a_draft_that_was_not_read_is_not_modelled(checkpoint: DraftCheckpoint | None, reason: str) -> None:
    architecture = drafted(LLAMA)
    architecture = replace(architecture, drafts=replace(architecture.drafts, checkpoint=checkpoint))
    with pytest.raises(UnmodelledSpeculation, match=reason):
        speculate(architecture, "0.32.0", SpeculativeConfig(model="a/b", num_speculative_tokens=2))


def test_prediction_layers_that_were_not_read_are_not_modelled() -> None:
    """The engine knows those of LongCat Flash, and refuses a model type for which it knows none."""
    speculative = SpeculativeConfig(method="mtp", num_speculative_tokens=1)
    architecture = replace(
        drafted(DEEPSEEK),
        model_type="longcat_flash",
        class_name="LongcatFlashForCausalLM",
        drafts=DraftSources(unread="the prediction (MTP) layers of LongcatFlashForCausalLM are not modelled"),
    )
    with pytest.raises(UnmodelledSpeculation, match="of LongcatFlashForCausalLM are not modelled"):
        speculate(architecture, "0.33.0", speculative)


BLOCKS = {
    "dspark_block_size": 5,
    "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [40, 41, 42],
    "dspark_markov_rank": 256,
}
"""What the configs of DeepSeek V4 Flash with DSpark layers add."""


def deepseek_v4(**changed: object) -> ModelArchitecture:
    return read_architecture(read_document({**documents()["deepseek-ai/DeepSeek-V4-Flash"], **changed}))


def test_layers_that_guess_blocks_are_the_models_own() -> None:
    """vLLM 0.28.0, deepseek_v4/nvidia/dspark.py: three layers, and none of the prediction layers."""
    speculative = SpeculativeConfig(method="dspark", num_speculative_tokens=7)
    found = speculate(deepseek_v4(**BLOCKS), "0.28.0", speculative)

    assert found is not None
    assert found.draft is not None
    assert (found.method, len(found.draft.layers), found.slots) == ("dspark", 3, 6)


def test_a_config_without_such_layers_is_not_modelled() -> None:
    speculative = SpeculativeConfig(method="dspark", num_speculative_tokens=7)
    with pytest.raises(UnmodelledSpeculation, match="dspark_target_layer_ids"):
        speculate(deepseek_v4(), "0.28.0", speculative)


@pytest.mark.parametrize(
    ("release", "tokens", "refused"),
    [
        ("0.25.1", 3, False),
        ("0.26.0", 3, True),
        ("0.26.0", 5, False),
        ("0.27.1", 4, True),
        ("0.28.0", 3, False),
    ],
)
def test_fewer_tokens_than_a_block(release: str, tokens: int, *, refused: bool) -> None:
    """vLLM 0.26.0 and 0.27.1, SpeculativeConfig.__post_init__."""
    speculative = SpeculativeConfig(method="dspark", num_speculative_tokens=tokens)
    if not refused:
        assert speculate(deepseek_v4(**BLOCKS), release, speculative) is not None
        return
    with pytest.raises(EngineRefusal) as caught:
        speculate(deepseek_v4(**BLOCKS), release, speculative)
    assert caught.value.message.startswith(
        "SpeculativeConfig: DSpark requires num_speculative_tokens >= dspark_block_size (5); got "
    )


@pytest.mark.parametrize(("tokens", "divides"), [(1, True), (2, True), (3, False), (4, True)])
def test_prediction_layers_are_run_in_whole_rounds(tokens: int, divides: bool) -> None:
    """SpeculativeConfig.__post_init__, vLLM 0.32.0: two layers guess 1, 2, 4, ... tokens."""
    document = {**documents()[DEEPSEEK], "num_nextn_predict_layers": 2}
    architecture = read_architecture(read_document(document))
    speculative = SpeculativeConfig(method="mtp", num_speculative_tokens=tokens)
    if divides:
        found = speculate(architecture, "0.32.0", speculative)
        assert found is not None
        assert found.tokens == tokens
        return
    words = "SpeculativeConfig: num_speculative_tokens:3 must be divisible by n_predict=2"
    with pytest.raises(EngineRefusal, match=f"^{words}$"):
        speculate(architecture, "0.32.0", speculative)


def test_a_whole_draft_is_split_as_the_model_is() -> None:
    """vLLM 0.15.0, v1/spec_decode/draft_model.py _raise_if_draft_tp_mismatch; later runners are not known."""
    alone = {"method": "draft_model", "model": SMALL, "draft_tensor_parallel_size": 1}
    with pytest.raises(EngineRefusal) as caught:
        engine_config(LLAMA, "0.15.0", alone, tensor_parallel_size=2)
    assert caught.value.message == (
        "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. Got 1 and 2. "
        "Please pass 'draft_tensor_parallel_size' in the speculative_config."
    )
    with pytest.raises(UnmodelledSpeculation, match="split over other ranks than the model"):
        engine_config(LLAMA, "0.33.0", alone, tensor_parallel_size=2)
    assert (
        engine_config(
            LLAMA, "0.15.0", {**alone, "draft_tensor_parallel_size": 2}, tensor_parallel_size=2
        ).speculation
        is not None
    )


def test_ranks_must_divide_the_heads_of_a_draft() -> None:
    """Qwen2.5-0.5B has 14 heads: ModelConfig.verify_with_parallel_config looks at the draft too."""
    words = r"Total number of attention heads \(14\) must be divisible by tensor parallel size \(4\)\."
    with pytest.raises(EngineRefusal, match=words):
        engine_config("Qwen/Qwen2.5-7B", "0.32.0", {"model": "Qwen/Qwen2.5-0.5B"}, tensor_parallel_size=4)


@pytest.mark.parametrize(
    ("stages", "error", "words"),
    [
        # The last of two stages has layers 16 to 31, the head's is called as the 16th: as its own stage's.
        (2, EngineRefusal, r"^Duplicate layer name: model\.layers\.16\.self_attn\.attn$"),
        # The last of three has 22 to 31, the head's is called as the 10th: another stage's.
        (3, UnmodelledSpeculation, "called as another stage's"),
    ],
)
def test_the_layer_of_an_eagle_head_is_named_by_the_layers_of_the_last_stage_alone(
    stages: int, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        engine_config(LLAMA, "0.32.0", {"model": EAGLE}, pipeline_parallel_size=stages)


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
