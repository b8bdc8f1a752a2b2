"""Recurrent models against what real releases answered: caches, backends and refusals."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.engines.releases import find_release, rules_for
from tests.accuracy.oracle import difference
from tests.accuracy.recurrent import architecture, recorded, rows_by_config


@pytest.mark.parametrize(("name", "rows"), rows_by_config().items(), ids=list(rows_by_config()))
def test_every_row_of_a_config_agrees_in_every_field(name: str, rows: list[Mapping[str, Any]]) -> None:
    found = {
        row["id"]: difference(row, architecture(name), rules_for(find_release(row["engine_version"])))
        for row in rows
    }

    assert found == dict.fromkeys(found)


def test_the_rows_cover_every_kind_of_state() -> None:
    kinds = {kind for row in recorded()["rows"] for kind in row["expect"].get("attention_backends", ())}

    assert kinds >= {"MAMBA1_ATTN", "MAMBA2_ATTN", "SHORT_CONV_ATTN", "LINEAR_ATTN", "BAILING_LINEAR_ATTN"}
    assert kinds >= {"GDN_ATTN", "KIMI_K3_KDA"}


@pytest.mark.parametrize(
    "words",
    [
        "mamba_cache_mode\n  Input should be 'align' or 'none'",
        "--mamba-block-size can only be set with --enable-prefix-caching",
        "Chunked prefill is required for mamba cache mode 'align'",
        "TurboQuant KV cache requires identifiable full-attention layers",
    ],
)
def test_the_rows_cover_what_is_refused_about_states(words: str) -> None:
    assert [row for row in recorded()["rows"] if words in row["expect"].get("error", {}).get("message", "")]
