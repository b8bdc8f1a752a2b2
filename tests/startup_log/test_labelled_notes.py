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


@pytest.mark.parametrize(
    ("file", "is_variable"), [("/site-packages/vllm/envs.py", True), ("/app/client.py", False)]
)
def test_value_that_another_program_read_is_no_variable_of_the_engine(file: str, is_variable: bool) -> None:
    text = (
        "VLLM_PORT=8000 vllm serve org/model\n\n"
        f'Traceback (most recent call last):\n  File "{file}", line 3, in get\n    return float(value)\n'
        "ValueError: could not convert string to float: 'abc'\n"
    )

    assert (explained(text).cause == "environment_variable") is is_variable


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


def test_row_of_a_table_is_read_cell_by_cell() -> None:
    text = (
        "| Symptom | Cause | Fix |\n|---|---|---|\n"
        "| vLLM exits with `RuntimeError: something unheard-of happened` | The wheel was built for CUDA 13 | "
        "Install the wheel for CUDA 12 |\n"
    )

    found = explained(text)

    assert any("The wheel was built for CUDA 13" in note for note in found.notes)
    assert found.works[0].words.endswith("Install the wheel for CUDA 12")


def test_reason_in_a_row_says_more_than_the_end_of_the_engine() -> None:
    text = (
        "vLLM cannot serve PEFT `target_parameters` LoRA (packed MoE adapters); the native path\n"
        "kills the engine:\n\n```\n"
        '"native_failure": "EngineDeadError: EngineCore encountered an issue."\n```\n'
    )

    assert explained(text).cause == "adapter_does_not_fit"


def test_lines_of_prose_of_one_length_are_not_joined_inside_of_a_word() -> None:
    text = (
        "On this host vLLM does not start with two GPUs, since both of them share the\n"
        "slot that the board gives to the first of the two cards, and so it ends when\n"
        "ranks meet each other for the first time; the log says that NCCL hangs there\n"
    )
    assert {len(line) for line in text.splitlines()} == {76}

    assert "the slot" in explained(text).message


def test_file_that_a_person_names_places_an_exception_without_calls() -> None:
    text = (
        "RuntimeError: Worker failed with error 'index 1 is out of bounds for dimension 0 with size 1'\n\n"
        "**File:** `vllm/model_executor/models/qwen3_omni_moe_thinker.py`\n**Line:** 1604\n"
        "**Function:** `get_mrope_input_positions`\n"
    )

    assert explained(text).cause == "model_class_failed"


SAID = [
    ("**\u95ee\u9898 1\uff1avLLM \u542f\u52a8\u5931\u8d25 - CUDA Out of Memory**\n", "out_of_memory"),
    ("### Q: vLLM \u542f\u52a8\u5931\u8d25\uff0c\u63d0\u793a\u663e\u5b58\u4e0d\u8db3\n", "out_of_memory"),
    ("The request fails since its model and SERVED_MODEL_NAME do differ.\n", "model_name_not_served"),
    (
        "vLLM refuses to start because the KV budget can't hold one request.\n",
        "kv_cache_smaller_than_one_request",
    ),
    (
        "This model tops out at 131,072 tokens of context; vLLM refuses to start above it.\n",
        "length_beyond_model",
    ),
    (
        "KServe's readiness probes use HTTPS, vLLM serves plain HTTP, and the pod never gets ready.\n",
        "probe_ended_it",
    ),
    (
        "| `unrecognized arguments: --rope-scaling` | ese flag ya no existe en esta vLLM |\n",
        "unknown_argument",
    ),
    ("vLLM crashes at the start: CUDA Error 804 forward compatibility\n", "driver_too_old"),
    (
        "`tokenizer.json` is not found in the merged folder, and vLLM fails to load it.\n",
        "tokenizer_not_loaded",
    ),
    ("vLLM fails to load the LoRA adapter: its `adapter_config.json` is missing.\n", "adapter_not_found"),
    ("vLLM fails to start: the model path does not exist inside the container.\n", "model_folder_not_there"),
    ("vLLM fails to load it. Usually: IAM permissions of the service account.\n", "object_storage_refused"),
    ("The request fails: vLLM rejects a mismatch of the model name.\n", "model_name_not_served"),
    ("The `xe` driver can reset the engine under load, and vLLM hangs then.\n", "xpu_fault"),
    ("NCCL_IB_HCA holds netdev names, and NCCL says that no device found.\n", "nccl_not_connected"),
    ("vLLM rejects images in a tool message with 400: user messages only.\n", "template_refused_messages"),
    ("The flash-attn 2.8.3 that is installed alone was left out: it broke vLLM.\n", "build_does_not_match"),
    ("The setup resolved to transformers 5.10.2, which broke vllm 0.8.5 at once.\n", "transformers_too_new"),
    ("PyTorch throws `RuntimeError: No ROCm GPUs detected`\n", "amd_device_not_visible"),
    ("vLLM throws:\n```text\nprompt length longer than max_model_len=4096\n```\n", "request_refused"),
    (
        "# vLLM complains if we don't give it the exact model name\n# that was launched\n",
        "model_name_not_served",
    ),
    ("If vLLM complains about libnvJitLink.so.12, set LD_LIBRARY_PATH:\n", "build_does_not_match"),
    ("A second engine on the same GPU: vLLM OOMs while it loads the model.\n", "memory_taken_by_others"),
    ("vLLM OOMs: the weights fill the whole budget, 0 for KV cache.\n", "no_memory_for_cache_blocks"),
    ("vLLM tries to parse paths as repo IDs, and complains about them.\n", "model_folder_not_there"),
    ("The pod crashes at once with executable not found.\n", "program_not_found"),
    ("It hangs when vLLM for cu12 shares CUDA context with a torch of cu13.\n", "build_does_not_match"),
]


@pytest.mark.parametrize(("text", "cause"), SAID, ids=[cause for _, cause in SAID])
def test_what_a_note_says_has_its_cause(text: str, cause: str) -> None:
    assert explained(text).cause == cause


def test_reason_with_a_label_comes_before_what_the_symptom_is_about() -> None:
    text = (
        "### Adapter issue\n\n"
        "- **Symptom:** vLLM fails to load the model, or the model produces garbled output\n"
        "- **Cause:** The LoRA adapter was **not** merged before it was served\n"
    )

    assert explained(text).cause == "adapter_given_as_model"


def test_place_that_a_person_shortens_is_that_of_the_exception() -> None:
    text = (
        "core sends its utility replies to ApiServer_1, and that process dies:\n\n"
        "    core_client.py:630  future = utility_results.pop(output.call_id)\n"
        "    KeyError: 5911085152105140721\n"
    )

    assert explained(text).cause == "engine_fault"


# Python's grammar: `match` since 3.10, subscripts of array.array since 3.12 (What's New of each).
PYTHONS = [
    ("3.12", "SyntaxError: invalid syntax", "program_fault"),
    ("3.8", "SyntaxError: invalid syntax", "python_too_old"),
    ("3.11", "TypeError: type 'array.array' is not subscriptable", "python_too_old"),
]


@pytest.mark.parametrize(("version", "raised", "cause"), PYTHONS)
def test_newer_python_is_not_too_old(version: str, raised: str, cause: str) -> None:
    text = (
        "Traceback (most recent call last):\n"
        f'  File "/opt/venv/lib/python{version}/runpy.py", line 88, in _run_code\n'
        "    exec(code, run_globals)\n"
        f'  File "/srv/app/serve.py", line 12\n    match kind:\n          ^\n{raised}\n'
    )

    assert explained(text).cause == cause


def test_code_that_a_library_made_is_not_for_a_newer_python() -> None:
    """unslothai/unsloth#1287: a patched source of a function was cut at the wrong place."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/conda/lib/python3.10/site-packages/unsloth/models/_utils.py", line 209, in <module>\n'
        "    exec(source)\n"
        '  File "<string>", line 25\n    )if len(self) == 0:\n                      ^\n'
        "SyntaxError: invalid syntax\n"
    )

    assert explained(text).cause == "program_fault"


def test_code_of_a_file_below_a_spawned_process_can_be_for_a_newer_python() -> None:
    """Python 3.8, multiprocessing/popen_spawn_posix.py: a child's first call is in no file."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "<string>", line 1, in <module>\n'
        '  File "/opt/conda/lib/python3.8/multiprocessing/spawn.py", line 116, in spawn_main\n'
        '  File "/srv/app/serve.py", line 12\n    match kind:\n          ^\n'
        "SyntaxError: invalid syntax\n"
    )

    assert explained(text).cause == "python_too_old"


# Where a dictionary of requests lies whose key is not there: the part that raised it.
HOLDERS = [
    ("/site-packages/vllm/v1/worker/gpu_model_runner.py", "_update_states", "engine_fault"),
    (
        "/site-packages/lmcache/integration/vllm/vllm_v1_adapter.py",
        "request_finished",
        "connector_step_failed",
    ),
    ("/srv/router/proxy.py", "finish", "program_fault"),
]


@pytest.mark.parametrize(("file", "function", "cause"), HOLDERS, ids=[cause for *_, cause in HOLDERS])
def test_id_of_a_request_that_is_not_there_is_of_the_part_that_raised_it(
    file: str, function: str, cause: str
) -> None:
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{file}", line 88, in {function}\n    state = self.requests[request_id]\n'
        "KeyError: 'chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9'\n"
    )

    assert explained(text).cause == cause
