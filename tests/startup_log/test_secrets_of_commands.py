"""Secrets in the flags of a command that a log or a file beside it holds, which an answer prints."""

import json

import pytest

from service.redaction import HIDDEN
from service.startup_log.log import read_log

SECRET = "Zq7xW2vTn9Lk4Rb8"  # noqa: S105 - a made-up secret whose way is followed
# bash, jobs.c: a job that a signal ended; argparse: the usage; a file of Compose; a program.
PLACES = (
    "/bin/sh: line 1: 12 Killed  vllm serve a/b --hf-overrides '{}'\n",
    "usage: vllm serve a/b --hf-overrides '{}'\n",
    "vllm serve a/b --hf-overrides '{}'\n",
    "services:\n  a:\n    image: vllm/vllm-openai\n    command: --model a/b --hf-overrides '{}'\n",
    "llm = LLM(\n    model='a/b',\n    hf_overrides={},\n)\n",
)
VALUES = (
    {"token": SECRET},
    {"text_config": {"api_key": SECRET}},
    {"a": [{"password": SECRET}]},
    {"secret": [SECRET]},
    {"a": f"https://u:{SECRET}@host/x"},
    {"a": f"hf_{SECRET}{SECRET}"},
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", VALUES)
def test_a_secret_within_json_is_in_no_flag(place: str, value: object) -> None:
    log = read_log(place.replace("{}", json.dumps(value)))

    assert SECRET not in repr(log)


def test_other_values_within_json_are_kept() -> None:
    given = {"image_token_index": 5, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "token": SECRET}
    log = read_log(f"/bin/sh: 12 Killed  vllm serve a/b --hf-overrides '{json.dumps(given)}'\n")

    assert log.flags["hf_overrides"] == {**given, "token": HIDDEN}
