"""Models whose layers differ or keep more than one cache, against what real releases answered."""

from collections.abc import Mapping
from typing import Any

import pytest

from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers.attention import Attention, PackedConvolutions
from service.architecture.reading import read_architecture
from tests.accuracy.recorded import UNEVEN


def test_four_convolutions_share_heads_of_a_power_of_two() -> None:
    """Keys and values of 128, and two streams of 1536 / 4: 1024 elements exactly; one more doubles them."""
    assert PackedConvolutions(4, 1536).head_size(4, 128) == 1024
    assert PackedConvolutions(4, 1540).head_size(4, 128) == 2048


def domyn(**fields: object) -> Mapping[str, Any]:
    return {**UNEVEN.configs["DomynEdgeForCausalLM/two-sizes"], **fields}


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
