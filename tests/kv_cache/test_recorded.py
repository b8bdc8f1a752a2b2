"""Models that the bundled snapshot lacks, against real releases: caches, backends and refusals."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engines.releases import find_release, rules_for
from tests.accuracy.oracle import difference
from tests.accuracy.recorded import (
    DRAWN,
    LATE,
    RECORDINGS,
    RECURRENT,
    SPARSE,
    UNEVEN,
    Recorded,
)

ROWS = [
    pytest.param(recorded, name, rows, id=name)
    for recorded in RECORDINGS
    for name, rows in recorded.rows_by_config.items()
]


@pytest.mark.parametrize(("recorded", "name", "rows"), ROWS)
def test_every_row_of_a_config_agrees_in_every_field(
    recorded: Recorded, name: str, rows: list[Mapping[str, Any]]
) -> None:
    architecture = recorded.architecture(name)

    found = {
        row["id"]: difference(row, architecture, rules_for(find_release(row["engine_version"])))
        for row in rows
    }

    assert found == dict.fromkeys(found)


def test_the_rows_cover_every_kind_of_state() -> None:
    kinds = {kind for row in RECURRENT.rows for kind in row["expect"].get("attention_backends", ())}

    assert kinds >= {"MAMBA1_ATTN", "MAMBA2_ATTN", "SHORT_CONV_ATTN", "LINEAR_ATTN", "BAILING_LINEAR_ATTN"}
    assert kinds >= {"GDN_ATTN", "KIMI_K3_KDA"}


@pytest.mark.parametrize(
    ("recorded", "words"),
    [
        (RECURRENT, "mamba_cache_mode\n  Input should be 'align' or 'none'"),
        (RECURRENT, "--mamba-block-size can only be set with --enable-prefix-caching"),
        (RECURRENT, "Chunked prefill is required for mamba cache mode 'align'"),
        (RECURRENT, "TurboQuant KV cache requires identifiable full-attention layers"),
        (SPARSE, "Pipeline parallelism is not supported for this model"),
        (SPARSE, "supports an NVFP4 KV cache only with the SM100 MSA backend"),
        (SPARSE, "requires CUTLASS MSA sparse decode"),
        (SPARSE, "no valid sparse MLA backend is available"),
        (LATE, "N-gram PLE embedding requires pipeline_parallel_size=1"),
        (LATE, "requires a BF16 or FP8-e4m3 main KV cache"),
        (LATE, "KV-head padding is not supported"),
        (LATE, "Step5 CSA tail ring needs 7 rows of 1024 bytes"),
        (LATE, 'is incompatible with dtype="bfloat16"'),
        (UNEVEN, "Flint requires FlashInfer attention"),
        (UNEVEN, "sconv SWA cache supports bfloat16 only, got torch.float16"),
        (UNEVEN, "No model architectures are specified"),
        (UNEVEN, "Pipeline parallelism is not supported for this model."),
        (DRAWN, "Number of experts in the model must be greater than 0"),
        (DRAWN, "No KV cache layout satisfies every supported set"),
        (DRAWN, "does not match the quantization method"),
        (DRAWN, "Unknown quantization method"),
        (DRAWN, "Cannot find the config file for"),
        (DRAWN, "fp8_e5m2 kv-cache is not supported with fp8 checkpoints"),
        (DRAWN, "invalid literal for int() with base 10: 'sliding_window'"),
        (DRAWN, "12 is not divisible by 8"),
        (DRAWN, "No model architectures are specified"),
        (DRAWN, "integer division or modulo by zero"),
    ],
)
def test_the_rows_cover_what_is_refused(recorded: Recorded, words: str) -> None:
    assert [row for row in recorded.rows if words in row["expect"].get("error", {}).get("message", "")]
