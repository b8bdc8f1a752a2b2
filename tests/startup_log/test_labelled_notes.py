"""Notes whose parts have labels, comments of scripts, and values of variables: what they say is used."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def explained(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


LABELLED = {
    "heading": "### Root cause\n\nThe wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "bold": "**Cause:** The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "item": "- **Reason**: The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "yaml": "cause: The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "wrapped": "Cause: The wheel was built for CUDA 13,\nand the host has a driver for 12.8.\n",
    "vietnamese": "**Nguyên nhân:** The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "korean": "**원인:**\n- The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "chinese": "**根本原因**\uff1aThe wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
    "german": "Ursache: The wheel was built for CUDA 13, and the host has a driver for 12.8.\n",
}


@pytest.mark.parametrize("part", LABELLED.values(), ids=LABELLED)
def test_part_that_is_labelled_as_the_reason_is_repeated(part: str) -> None:
    text = f"## vLLM does not start\n\n```\nRuntimeError: something unheard-of happened\n```\n\n{part}"

    said = [note for note in explained(text).notes if note.startswith("The text says on line")]

    assert len(said) == 1
    assert "The wheel was built for CUDA 13," in said[0]
    assert said[0].endswith("and the host has a driver for 12.8.")


def test_label_without_a_reason_is_not_repeated() -> None:
    text = "vLLM does not start:\n\n```\nRuntimeError: something happened\n```\n\nRoot cause: not yet known\n"

    assert not any("why:" in note for note in explained(text).notes)


FIXES = {
    "heading": ("### Fix\n\nMount the folder of the model at the same path.\n", "Mount the folder"),
    "code": ("**Solution:**\n```bash\nexport NCCL_SOCKET_IFNAME=eth1\n```\n", "NCCL_SOCKET_IFNAME=eth1"),
    "vietnamese": ("**Khắc phục:** Mount the folder of the model at the same path.\n", "Mount the folder"),
    "korean": ("**해결:**\n- Mount the folder of the model at the same path.\n", "Mount the folder"),
}


@pytest.mark.parametrize(("part", "words"), FIXES.values(), ids=FIXES)
def test_part_that_is_labelled_as_the_fix_is_shown(part: str, words: str) -> None:
    text = f"## vLLM does not start\n\n```\nRuntimeError: something unheard-of happened\n```\n\n{part}"

    assert words in explained(text).works[0].words


def test_block_that_shows_a_wrong_form_is_no_fix() -> None:
    text = (
        "```\napi_server.py: error: unrecognized arguments: --limit-mm-per-prompt '{\"image\": 1}'\n```\n\n"
        "**Fix:**\n```yaml\n# WRONG:\nargs:\n  - --limit-mm-per-prompt '{\"image\": 1}'\n```\n"
    )

    assert explained(text).works == ()


def test_comment_of_a_script_is_read_as_a_note() -> None:
    text = (
        "# On 4x A100-40GB the weights in 16 bit leave no room\n"
        "# for the prompt and its KV at --max-model-len 8192, and vLLM refuses to start.\n"
        "MODEL=${MODEL:-Qwen/Qwen2.5-72B-Instruct-AWQ}\n"
    )

    found = explained(text)

    assert found.cause == "kv_cache_smaller_than_one_request"
    assert found.line == 1


def test_headings_of_markdown_are_no_comment() -> None:
    found = explained("# vLLM notes\n# RuntimeError: CUDA error: an illegal memory access was encountered\n")

    assert found.cause == "illegal_memory_access"


@pytest.mark.parametrize("value", ["''", "'auto'"])
def test_value_that_is_no_number_is_that_of_the_variable_which_the_text_names(value: str) -> None:
    text = (
        "VLLM_ENGINE_READY_TIMEOUT_S= is left empty in .env\n\n"
        f"ValueError: invalid literal for int() with base 10: {value}\n"
    )

    found = explained(text)

    assert found.cause == "environment_variable"
    assert ("is set and empty" in found.means) is (value == "''")


def test_value_of_two_variables_is_none_of_them() -> None:
    text = "VLLM_PORT=8000 VLLM_HOST_IP=10.0.0.4\nValueError: invalid literal for int() with base 10: 'x'\n"

    assert explained(text).cause != "environment_variable"


RAISED = [
    # argparse, _get_value, with json.loads as the type of the flag.
    (
        "api_server.py: error: argument --hf-overrides: invalid loads value: '{rope_theta: 1}'",
        "flag_value_not_read",
        "JSON",
    ),
    # argparse, _get_value.
    (
        "vllm serve: error: argument --port/-p: invalid int value: '${PORT}'",
        "flag_value_not_read",
        "The flag takes a number",
    ),
    # XGrammar, cpp/json_schema_converter.cc; the prefix is that of its support/logging.h.
    (
        'RuntimeError: [09:44:28] /project/cpp/json_schema_converter.cc:902: Unsupported type "xml"',
        "grammar_failed",
        "The schema of a request",
    ),
    # huggingface_hub, utils/_http.py hf_raise_for_status.
    (
        "huggingface_hub.errors.HfHubHTTPError: 401 Unauthorized",
        "hub_access_not_granted",
        "did not accept the token",
    ),
]


@pytest.mark.parametrize(("text", "cause", "means"), RAISED, ids=[cause for _, cause, _ in RAISED])
def test_message_of_a_library_has_its_own_cause(text: str, cause: str, means: str) -> None:
    found = explained(text)

    assert found.cause == cause
    assert means in found.means


def test_failed_deployment_of_ray_serve_only_wraps_what_its_replica_raised() -> None:
    text = (
        "RuntimeError: Deployment 'count' failed, deleting it asynchronously.\n\n"
        "ray.exceptions.RayActorError: The actor died because of an error raised in its creation task\n"
        '  File "/srv/.venv/lib/python3.11/site-packages/ray/serve/replica.py", line 48, in __init__\n'
        "    deployment_def = cloudpickle.loads(serialized_deployment_def)\n"
        "ModuleNotFoundError: No module named 'foobar'\n"
    )

    assert explained(text).cause == "package_missing"


def test_exchange_that_warns_of_nothing_is_no_error_of_nccl() -> None:
    text = "The ranks hang inside of ncclCommInitRank on 16 nodes, and no NCCL WARN is emitted.\n"

    assert explained(text).cause == "ranks_hang_in_exchange"
