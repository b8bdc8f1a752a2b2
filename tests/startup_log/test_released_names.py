"""Which releases have the names that could not be imported from the engine."""

import pytest

from service.explanation.explain import explain
from service.startup_log.catalogue.released_names import released_name
from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("message", "first", "last"),
    [
        # vllm/worker, of the first engine: the wheels of 0.10.2 and 0.11.2 were read.
        ("No module named 'vllm.worker.model_runner'", None, "0.10.2"),
        # vllm/utils/__init__.py of 0.10.2; vllm/utils/argparse_utils.py of 0.11.2.
        ("cannot import name 'FlexibleArgumentParser' from 'vllm.utils' (/x/__init__.py)", None, "0.10.2"),
        ("No module named 'vllm.utils.argparse_utils'", "0.11.2", None),
    ],
)
def test_the_releases_of_a_name_are_known(message: str, first: str | None, last: str | None) -> None:
    found = released_name(message)

    assert found is not None
    assert found.still is (last is None)
    assert last in {None, found.last}
    assert first in {None, found.first}


@pytest.mark.parametrize(
    "message",
    [
        "cannot import name 'NoSuchThing' from 'vllm.utils' (/x/__init__.py)",
        "cannot import name 'LlamaFlashAttention2' from 'transformers.models.llama.modeling_llama'",
        "No module named 'vllm'",
        "a sentence",
    ],
)
def test_nothing_is_said_of_names_that_no_release_had(message: str) -> None:
    assert released_name(message) is None


def test_the_answer_names_them() -> None:
    log = read_log("ImportError: cannot import name 'FlexibleArgumentParser' from 'vllm.utils' (/x/a.py)")
    ending = explain(log, None, gpu_specified=False).ending

    assert ending is not None
    assert any("0.10.2 have vllm.utils.FlexibleArgumentParser" in offer for offer in ending.offers)
