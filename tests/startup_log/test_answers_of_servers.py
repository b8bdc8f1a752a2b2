"""What a server answers to a request that it refuses, pasted alone: its JSON, and the words of its checks."""

import pytest

from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def ending_of(text: str) -> Diagnosis:
    ending = explain(read_log(text), None).ending
    assert ending is not None
    return ending


def answer(message: str, kind: str = "BadRequestError") -> str:
    """The form of vLLM 0.33.0, entrypoints/openai/engine/protocol.py ErrorResponse."""
    return f'{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":400}}}}'


@pytest.mark.parametrize(
    "text",
    [
        answer("Truncation side left is not supported"),
        answer("Streaming `prompt_logprobs` is not supported"),
        answer("Foo is bad today", kind="InvalidUserInput"),
    ],
)
def test_an_answer_is_a_refused_request_whatever_else_has_its_words(text: str) -> None:
    """`is not supported` beside it would be a feature that a start asks for."""
    ending = ending_of(text)

    assert (ending.cause, ending.refused) == ("request_refused", True)


@pytest.mark.parametrize(
    ("text", "cause", "helps"),
    [
        (answer("Qwen3ForCausalLM is not a multimodal model"), "model_takes_no_media", "text alone"),
        (
            answer("Failed to apply Qwen2VLProcessor on data={'text': '', 'images': []} with kwargs={}"),
            "multimodal_input_not_processed",
            "transformers",
        ),
        (
            answer("1 validation error for list[function-wrap[__log_extra_fields__()]] Invalid JSON: EOF"),
            "tool_call_not_parsed",
            "max_tokens",
        ),
        (
            answer("The lora adapter 'a' has already been loaded.", kind="InvalidUserInput"),
            "adapter_already_loaded",
            "load_inplace",
        ),
        # vLLM 0.33.0, renderers/embed_utils.py.
        (
            "ValueError: You must set `--enable-prompt-embeds` to input `prompt_embeds`.",
            "request_parameter_refused",
            "the message names",
        ),
        # Jinja 3.1, filters.py do_items.
        ("TypeError: Can only get item pairs from a mapping.", "template_refused_messages", "object"),
        # Python 3.12, binascii.c, of a data URL.
        ("binascii.Error: Incorrect padding", "media_not_fetched", "address"),
        # vLLM 0.8.5 to 0.33.0, lora/model_manager.py.
        ("RuntimeError: No free lora slots", "adapter_does_not_fit", "--max-loras"),
    ],
)
def test_what_says_more_comes_before_that(text: str, cause: str, helps: str) -> None:
    ending = ending_of(text)

    assert ending.cause == cause
    assert helps in ending.remedy


def test_a_segment_that_is_gone_is_no_fault_of_the_engine() -> None:
    """68844522124: systemd-logind removed it when the user's last session ended."""
    ending = ending_of("vLLM died with `'ShmRingBuffer' object has no attribute 'shared_memory'`")

    assert ending.cause == "ranks_without_common_shm"
    assert "enable-linger" in ending.remedy


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # uvicorn, protocols/http/httptools_impl.py.
        ('INFO:     127.0.0.1:34567 - "POST /v1/embeddings HTTP/1.1" 404 Not Found', "route_not_found"),
        (
            '(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
            "request_refused",
        ),
        (
            'INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error',
            "request_failed",
        ),
    ],
)
def test_the_line_of_one_refused_answer_is_about_that(text: str, cause: str) -> None:
    assert ending_of(text).cause == cause


def test_a_refused_answer_among_others_is_none() -> None:
    text = (
        'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
        'INFO:     127.0.0.1:1 - "POST /v1/embeddings HTTP/1.1" 404 Not Found\n'
    )

    assert explain(read_log(text), None).ending is None


@pytest.mark.parametrize(
    ("text", "cause", "helps"),
    [
        # vLLM 0.33.0, v1/engine/utils.py wait_for_engine_startup.
        (
            "RuntimeError: Configuration mismatch detected for engine 1. All must be alike",
            "data_parallel_launch",
            "same release, flags",
        ),
        # Python 3.12, OSError.
        ("OSError: [Errno 24] Too many open files", "file_not_accessible", "ulimit -n"),
        # Jinja 3.1, filters.py do_tojson.
        (
            "TypeError: Object of type Undefined is not JSON serializable",
            "template_refused_messages",
            "template",
        ),
        # PyTorch 2, ProcessGroupNCCL.cpp.
        ("RuntimeError: Tensors must be CUDA and dense", "tensors_do_not_fit", "newer release"),
        ("KeyError: 'max_position_embeddings'", "model_config_not_read", "config.json"),
    ],
)
def test_one_line_tells_what_helps(text: str, cause: str, helps: str) -> None:
    ending = ending_of(text)

    assert ending.cause == cause
    assert helps in ending.remedy
