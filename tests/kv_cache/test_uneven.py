"""Models whose layers differ or keep more than one cache, against what real releases answered."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers import Attention, PackedConvolutions
from service.architecture.reading import read_architecture
from service.engines.releases import find_release, rules_for
from tests.accuracy.oracle import difference
from tests.accuracy.recurrent import UNEVEN, architecture, recorded, rows_by_config


@pytest.mark.parametrize(("name", "rows"), rows_by_config(UNEVEN).items(), ids=list(rows_by_config(UNEVEN)))
def test_every_row_of_a_config_agrees_in_every_field(name: str, rows: list[Mapping[str, Any]]) -> None:
    found = {
        row["id"]: difference(row, architecture(name, UNEVEN), rules_for(find_release(row["engine_version"])))
        for row in rows
    }

    assert found == dict.fromkeys(found)


@pytest.mark.parametrize(
    "words",
    [
        "Flint requires FlashInfer attention",
        "sconv SWA cache supports bfloat16 only, got torch.float16",
        "No model architectures are specified",
        "Pipeline parallelism is not supported for this model.",
    ],
)
def test_the_rows_cover_what_these_classes_refuse(words: str) -> None:
    rows = recorded(UNEVEN)["rows"]

    assert [row for row in rows if words in row["expect"].get("error", {}).get("message", "")]


def test_four_convolutions_share_heads_of_a_power_of_two() -> None:
    """Keys and values of 128, and two streams of 1536 / 4: 1024 elements exactly; one more doubles them."""
    assert PackedConvolutions(4, 1536).head_size(4, 128) == 1024
    assert PackedConvolutions(4, 1540).head_size(4, 128) == 2048


def domyn(**fields: object) -> Mapping[str, Any]:
    return {**recorded(UNEVEN)["configs"]["DomynEdgeForCausalLM/two-sizes"], **fields}


def test_a_layer_says_its_head_size_under_its_number_with_or_without_zeros_in_front() -> None:
    def sizes(config: Mapping[str, Any]) -> list[int]:
        mixers = [layer.mixer for layer in read_architecture(read_document(config)).layers]
        return [mixer.head_size for mixer in mixers if isinstance(mixer, Attention)]

    expected = [128, 128, 128, 256] * 2

    assert sizes(domyn()) == expected
    assert sizes(domyn(per_layer_config={"3": {"head_dim": 256}, "7": {"head_dim": 256}})) == expected


@pytest.mark.parametrize("windows", [None, [], [[511, 0]], [511] * 8, [["511", 0]] * 8, [[1 << 40, 0]] * 8])
def test_windows_that_are_not_a_pair_for_each_layer_are_refused(windows: object) -> None:
    with pytest.raises(InvalidConfig, match="window_sizes"):
        read_architecture(read_document(domyn(window_sizes=windows)))
