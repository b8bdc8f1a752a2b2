"""Remedies of which a part needs another host: marks within brackets and names end no part of them."""

from dataclasses import replace

from service.explanation.remedies.remedy_parts import parts_of
from service.explanation.remedies.start_facts import facts_of
from service.explanation.remedies.unmet_conditions import without_unmet
from service.startup_log.log import read_log

REMEDY = (
    "Give the container its GPUs (docker run --gpus all; in Kubernetes a limit of nvidia.com/gpu), check "
    "CUDA_VISIBLE_DEVICES; or rebuild. Then start it again"
)


def test_a_semicolon_in_brackets_ends_no_part() -> None:
    first, *others = parts_of(REMEDY)

    assert first.endswith("CUDA_VISIBLE_DEVICES;")
    assert others == ["or rebuild.", "Then start it again"]


def test_what_is_for_containers_is_left_out_whole_on_a_host_without_one() -> None:
    bare = replace(facts_of(read_log("RuntimeError: x")), holds={"container": False})

    assert without_unmet(REMEDY, bare) == "Check CUDA_VISIBLE_DEVICES; or rebuild. Then start it again"
    assert without_unmet("On a host set A; in Kubernetes nvidia.com/gpu, pass B.", bare) == (
        "On a host set A; pass B."
    )
