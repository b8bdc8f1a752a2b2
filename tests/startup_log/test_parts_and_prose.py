"""What the words around an error say of its part: a version, a backend, a template, other processes."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

TRTLLM = """\
RuntimeError: Error in function 'trtllm_paged_attention_launcher' at trtllm.cu:1:
Missing TRTLLM-GEN kernel (decode): qkvLayout=2, maskType=1, headDimQk=128, numTokensPerPage=128
"""
KILLED = (
    "a killed vLLM job leaves its engine holding the memory, and the next one dies in engine init "
    '("Free memory on device ... is less than desired").\n'
)
RESHAPE = """\
The shape of `get_kv_cache_shape` is wrong in the `FLASH_ATTN_DIFFKV` backend.
RuntimeError: shape '[512, 16, 12, 192]' is invalid for input of size 12582912
"""
ASLEEP = (
    "The stack does not expose the allocator backend of vLLM sleep mode. When sleep mode was forced, "
    "vLLM crashed during initialization.\n"
)
TEXTS = [
    # The text, the cause, and words of the advice; the forms of notes of 2026.
    (
        "TypeError: allreduce_fusion() got an unexpected keyword argument 'weight_bias'\n",
        "call_not_known",
        "flashinfer-python",
    ),
    (
        TRTLLM,
        "flashinfer_kernel_failed",
        "flashinfer-cubin",
    ),
    (
        "vLLM rejects (HTTP 400) when prompt_tokens + max_tokens > max_model_len, and the call fails.\n",
        "request_refused",
        "ask for fewer tokens",
    ),
    (
        "vLLM rejects requests where a system message appears after user messages: a template error.\n",
        "template_refused_messages",
        "Send the roles in the order",
    ),
    (
        KILLED,
        "memory_taken_by_others",
        "Free the GPU",
    ),
    (
        RESHAPE,
        "tensors_do_not_fit",
        "another --attention-backend",
    ),
    (
        ASLEEP,
        "sleep_mode_failed",
        "Leave out --enable-sleep-mode",
    ),
]


@pytest.mark.parametrize(("text", "cause", "helps"), TEXTS, ids=[row[0][:36] for row in TEXTS])
def test_words_around_an_error_tell_its_part(text: str, cause: str, helps: str) -> None:
    found = diagnose(read_log(text), None)

    assert found is not None
    assert (found.cause, helps in found.remedy) == (cause, True), found.remedy


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("chat_template is not supported for Mistral tokenizers.", "messages_refused"),
        ("Outlines structured outputs backend does not support grammar specifications", "grammar_refused"),
        ("reasoning_effort=max is not supported by Mistral models.", "request_parameter_refused"),
    ],
)
def test_class_with_which_a_request_is_refused_is_no_failed_start(says: str, cause: str) -> None:
    # vLLM 0.33.0, exceptions.py VLLMValidationError; tokenizers/mistral.py, v1/structured_output.
    text = (
        f"(APIServer pid=1) ERROR 07-21 13:02:11 [serving.py:9] vllm.exceptions.VLLMValidationError: {says}\n"
        '(APIServer pid=1) INFO:     10.0.0.3:51522 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request\n'
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert (found.refused, found.cause) == (True, cause)


@pytest.mark.parametrize("end", ["failed to start", "encountered a fatal error"])
def test_traceback_cut_below_the_end_of_the_core_asks_for_its_end(end: str) -> None:
    # vLLM 0.19.0, v1/engine/core.py run_engine_core; v1/core/sched/scheduler.py and kv_cache_manager.py.
    text = (
        f"(EngineCore_DP0 pid=191) ERROR 10-02 09:11:20 [core.py:710] EngineCore {end}.\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/vllm/v1/engine/core.py", line 701, in run_engine_core\n'
        "    engine_core.run_busy_loop()\n"
        '  File "/opt/vllm/v1/core/sched/scheduler.py", line 440, in schedule\n'
        "    new_blocks = self.kv_cache_manager.allocate_slots(\n"
        '  File "/opt/vllm/v1/core/kv_cache_manager.py", line 302, in allocate_slots\n'
        "    self.coordinator.cache_blocks(\n"
    )

    found = read_log(text).failure

    assert found is not None
    assert (found.cause, found.cut, found.origin.part) == (None, True, "the layout of the KV cache")


def test_sentences_before_a_condition_tell_what_happened() -> None:
    said = "The server failed with torch.OutOfMemoryError: CUDA out of memory."
    advice = "If you see `CUDA out of memory`, lower --max-num-seqs."

    found = diagnose(read_log(f"### vLLM\n\n{said} {advice}\n"), None)

    assert found is not None
    assert (found.cause, found.line) == ("out_of_memory", 3)
    assert diagnose(read_log(f"### vLLM\n\n{advice}\n"), None) is None
