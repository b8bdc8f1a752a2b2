"""How layers are spread over ranks, and what the engine refuses of it."""

import pytest

from service.engines.refusal import EngineRefusal, Stage
from service.launch.layout import check_shared_caches
from tests.accuracy.oracle import bundled_architecture


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
