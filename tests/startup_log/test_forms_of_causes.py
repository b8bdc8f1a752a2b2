"""Messages of one cause that differ in what helps, in the engine's and the libraries' own words."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

LOGS = Path(__file__).parents[1] / "data" / "logs"
MESSAGES = tomllib.loads((LOGS / "forms.toml").read_text(encoding="utf-8"))["message"]


@pytest.mark.parametrize("row", MESSAGES, ids=lambda row: row["text"][:60])
def test_what_helps_follows_the_form(row: Mapping[str, str]) -> None:
    found = diagnose(read_log(row["text"]), None)

    assert found is not None
    assert (found.cause, row["helps"] in found.remedy) == (row["cause"], True)


def test_a_client_s_error_with_escaped_quotes_is_a_refused_request() -> None:
    """pydantic's words inside of the text that openai-python prints."""
    body = (
        r"[{\'type\': \'dict_type\', \'loc\': (\'body\', \'messages\', 0, \'typed-dict\'), \'msg\': \'Input'"
    )
    said = f"openai.BadRequestError: Error code: 400 - {{'object': 'error', 'message': '{body}"
    found = diagnose(read_log(said), None)

    assert found is not None
    assert (found.cause, found.refused) == ("request_parameter_refused", True)


def frames(*places: tuple[str, str]) -> str:
    calls = "\n".join(
        f'  File "/x/site-packages/{path}", line 1, in {name}\n    x()' for path, name in places
    )
    return f"Traceback (most recent call last):\n{calls}\n"


@pytest.mark.parametrize(
    ("places", "exception", "cause"),
    [
        # vLLM 0.6.1, worker/worker.py: the name of the GPU is asked for the message alone
        (
            (("vllm/worker/worker.py", "_check_if_gpu_supports_dtype"), ("pynvml.py", "wrapper")),
            "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xf8 in position 0: invalid start byte",
            "dtype_not_on_this_gpu",
        ),
        # vLLM 0.6.0, platforms/interface.py
        (
            (
                ("vllm/attention/selector.py", "which_attn_to_use"),
                ("vllm/platforms/interface.py", "get_device_capability"),
            ),
            "NotImplementedError",
            "no_gpu_visible",
        ),
    ],
)
def test_calls_that_only_one_cause_passes(
    places: tuple[tuple[str, str], ...], exception: str, cause: str
) -> None:
    found = diagnose(read_log(frames(*places) + exception), None)

    assert found is not None
    assert found.cause == cause


def test_a_cause_that_the_message_shows_is_not_repeated_as_said() -> None:
    """The form of gpustack/gpustack#1963: the title has the message, and the traceback below is cut."""
    frame = '  File "/x/site-packages/vllm/model_executor/models/utils.py", line 610, in <listcomp>\n'
    found = diagnose(
        read_log(f"No module named 'bitsandbytes'\n\n{frame}    layer_fn(prefix=prefix)\n"), None
    )

    assert found is not None
    assert (found.cause, found.said) == ("package_missing", None)
