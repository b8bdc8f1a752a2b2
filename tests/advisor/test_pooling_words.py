"""What a plan of a pooling model says, and how it decides."""

from dataclasses import replace
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run, dry_start
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest, Workload
from service.application.text.table import render_plan
from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.pooling import SentenceFiles, SequencePooling
from service.architecture.reading import read_architecture
from service.engine_config.graph_modes import GraphMode
from service.engine_config.scheduling_checks import UnmodelledEngine
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.gpus.own_gpu import own_gpu, read_own_gpu

L4: Final = find_gpu("l4-24gb")
RERANKER: Final[dict[str, Any]] = {
    "architectures": ["XLMRobertaForSequenceClassification"],
    "model_type": "xlm-roberta",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "max_position_embeddings": 8194,
    "position_embedding_type": "absolute",
    "type_vocab_size": 1,
    "vocab_size": 250002,
    "id2label": {"0": "LABEL_0"},
    "torch_dtype": "float32",
}
DECODER: Final[dict[str, Any]] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 32768,
    "vocab_size": 151669,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def _read(config: dict[str, Any], files: SentenceFiles | None = None) -> ModelArchitecture:
    architecture = read_architecture(read_document(config))
    if files is None:
        return architecture
    return replace(architecture, pooling_fields=replace(architecture.pooling_fields, files=files))


def _request(
    config: dict[str, Any], serve: ServeFlags, workload: Workload | None = None, *, search: bool = False
) -> PlanRequest:
    model = Model("org/model", None, "inline", _read(config))
    return PlanRequest(model, (L4,), EngineChoice.of("0.32.0"), serve, workload, search=search)


def _run(config: dict[str, Any], serve: ServeFlags) -> Candidate:
    return dry_run(_request(config, serve), serve, rules_for(Version("0.32.0")), L4)


def test_an_encoder_starts_without_a_cache_and_says_what_limits_its_requests() -> None:
    text = " ".join(render_plan(plan(_request(RERANKER, ServeFlags()))).split())
    assert "no KV cache" in text
    assert "256 requests (max_num_seqs) and 8,194 tokens together" in text
    assert "KV cache size" not in text
    assert "0 tokens" not in text
    candidate = _run(RERANKER, ServeFlags())
    assert candidate.verdict is Verdict.STARTS
    assert candidate.kv_cache is None
    assert candidate.caches_nothing


def test_an_encoder_is_recommended_on_one_gpu_and_serves_its_workload() -> None:
    answer = plan(_request(RERANKER, ServeFlags(), Workload(512, 0, 64), search=True))
    best = answer.plans[0].recommended
    assert best is not None
    assert best.gpus == 1
    assert answer.counts.serve == 1
    # 8,194 tokens hold 16 prompts of 512.
    assert "16 of 64 requests are computed in one step" in answer.verdict


def test_a_prompt_that_is_longer_than_the_encoder_takes_is_not_served() -> None:
    answer = plan(_request(RERANKER, ServeFlags(), Workload(9000, 0, 1)))
    assert answer.counts.serve == 0
    assert "a prompt of 9,000 tokens is too long" in answer.verdict


def test_an_encoder_of_more_weights_than_the_device_has_does_not_start() -> None:
    giant = {**RERANKER, "hidden_size": 8192, "intermediate_size": 32768, "num_hidden_layers": 48}
    candidate = _run(giant, ServeFlags())
    assert candidate.verdict is Verdict.REFUSED
    assert candidate.error is not None
    assert candidate.error.type == "OutOfMemoryError"


# By hand: vocabulary 151,669 padded to 151,680 rows of 4,096 in 16 bits; 4,096 x 3 scores in 32 bits.
def test_a_converted_decoder_has_a_head_in_place_of_the_output_layer() -> None:
    config = {**DECODER, "hidden_size": 4096, "tie_word_embeddings": False, "num_labels": 3}
    weights = {}
    for convert in (None, "embed", "classify"):
        memory = _run(
            config, ServeFlags(runner=None if convert is None else "pooling", convert=convert)
        ).memory
        assert memory is not None
        weights[convert] = memory.weights.parameter_bytes
    assert weights[None] - weights["embed"] == 151_680 * 4096 * 2
    assert weights["classify"] - weights["embed"] == 4096 * 3 * 4


def test_graphs_of_whole_steps_become_graphs_between_attention() -> None:
    start = dry_start(
        _read(DECODER), ServeFlags(runner="pooling", tensor_parallel_size=1), rules_for(Version("0.32.0")), L4
    )
    assert start.engine_config.graph_mode is GraphMode.PIECEWISE
    assert start.engine_config.concurrent_batches == 1


# vLLM 0.11.2: only `last` is computed in parts; 0.12.0: a mean never is, in any release.
@pytest.mark.parametrize(
    ("release", "sequence", "caches"),
    [
        ("0.11.2", SequencePooling.LAST, True),
        ("0.32.0", SequencePooling.LAST, True),
        ("0.11.2", SequencePooling.MEAN, False),
        ("0.32.0", SequencePooling.MEAN, False),
    ],
)
def test_the_pooling_of_the_files_decides_whether_prefixes_are_cached(
    release: str, sequence: SequencePooling, *, caches: bool
) -> None:
    architecture = _read(DECODER, SentenceFiles(pools=True, sequence=sequence))
    start = dry_start(architecture, ServeFlags(tensor_parallel_size=1), rules_for(Version(release)), L4)
    config = start.engine_config
    assert config.enable_prefix_caching is caches
    assert (config.max_num_batched_tokens == config.max_model_len) is not caches


def test_the_files_of_sentence_transformers_start_the_pooling_runner_and_limit_the_length() -> None:
    files = SentenceFiles(pools=True, sequence=SequencePooling.LAST, max_seq_length=512)
    start = dry_start(
        _read(DECODER, files), ServeFlags(tensor_parallel_size=1), rules_for(Version("0.32.0")), L4
    )
    assert start.architecture.pooling is not None
    assert start.engine_config.max_model_len == 512


def test_learned_positions_end_where_the_tokenizer_does() -> None:
    architecture = _read(RERANKER, SentenceFiles(tokenizer_length=8192))
    start = dry_start(architecture, ServeFlags(tensor_parallel_size=1), rules_for(Version("0.32.0")), L4)
    assert start.engine_config.max_model_len == 8192


@pytest.mark.parametrize(
    ("release", "words"),
    [("0.20.2", "does not support `--runner generate`"), ("0.32.0", "Embedding models do not support")],
)
def test_an_encoder_writes_no_text(release: str, words: str) -> None:
    with pytest.raises(EngineRefusal, match=words):
        dry_start(_read(RERANKER), ServeFlags(runner="generate"), rules_for(Version(release)), L4)


def test_a_decoder_whose_tokens_see_all_others_generates_nothing() -> None:
    architecture = _read({**DECODER, "is_causal": False})
    rules = rules_for(Version("0.32.0"))
    with pytest.raises(UnmodelledEngine, match="--runner pooling"):
        dry_start(architecture, ServeFlags(), rules, L4)
    assert dry_start(architecture, ServeFlags(runner="pooling"), rules, L4).layout.caches_nothing


def test_an_encoder_larger_than_the_gpu_is_refused_for_memory() -> None:
    """Its 559,891,457 parameters (the model card's 0.6B) take 1.04 GiB in 16 bits."""
    small = own_gpu(**read_own_gpu("name=small,memory=1GiB,cc=8.9"))
    model = Model("a/b", None, "inline", read_architecture(read_document(RERANKER)))
    request = PlanRequest(model, (small,), EngineChoice.of("0.33.0"))
    for asked in (request, replace(request, search=False)):
        whole = [each for each in plan(asked).plans[0].candidates if not each.flags.quantization]
        refused = [each for each in whole if each.gpus == 1]
        assert {each.verdict for each in refused} == {Verdict.REFUSED}
        assert all(each.error is not None and each.error.stage == "memory" for each in refused)
