"""Causes that a text denies, flags that it does not have, and links of a chain that only follow."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("The crash at the start isn't a memory error, it's a CLI syntax error.", "unknown_argument"),
        ("vllm serve fails: the model is given twice, as an argument and with a flag", "unknown_argument"),
        ("[Bug]: unrecognized arguments error at the start, out of memory is ruled out", "unknown_argument"),
        ("[Bug]: the port 8000 is already in use, rather than an OOM", "address_in_use"),
        # What is said without a denial stays.
        ("[Bug]: vLLM crashes with a memory error when the model loads", "out_of_memory"),
        ("[Bug]: the model loads twice on both GPUs and runs out of memory", "out_of_memory"),
    ],
)
def test_what_a_sentence_denies_is_no_cause(text: str, cause: str) -> None:
    assert ending(f"{text}\n").cause == cause


def test_a_dtype_of_the_cache_is_not_its_allocation() -> None:
    """vLLM 0.11.1, platforms/cuda.py get_attn_backend_cls refuses dtypes that no backend reads."""
    refused = "[Bug]: crash at engine init for --kv-cache-dtype values that the CLI accepted (fp8_inc)\n"
    failed = "[Bug]: the engine fails to allocate the KV cache\n"

    assert ending(refused).cause == "no_attention_backend"
    assert ending(failed).cause == "cache_setup_failed"


@pytest.mark.parametrize("name", ["MistralCommonTokenizer", "MistralCommonBackend", "MistralTokenizer"])
def test_a_flag_that_the_text_lacks_is_not_said_to_be_given(name: str) -> None:
    """transformers 4.57.1, models/auto/tokenization_auto.py: the library chooses its class by itself."""
    found = ending(f"AttributeError: '{name}' object has no attribute 'all_special_ids'\n")

    assert "--tokenizer-mode" not in found.means
    assert ("transformers and mistral-common" in found.remedy) is name.startswith("MistralCommon")


CHAIN = """\
Traceback (most recent call last):
  File "/lib/huggingface_hub/utils/_http.py", line 402, in hf_raise_for_status
    response.raise_for_status()
requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/a/b/resolve/main/config.json

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/lib/transformers/utils/hub.py", line 479, in cached_files
    hf_hub_download(
huggingface_hub.errors.{}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/lib/transformers/utils/hub.py", line 511, in cached_files
    raise OSError(
OSError: {}
"""


def test_a_repository_that_is_not_there_is_not_called_gated() -> None:
    """transformers 4.57.1, utils/hub.py cached_files tells the two apart by the Hub's exception."""
    absent = CHAIN.format(
        "RepositoryNotFoundError: 401 Client Error. (Request ID: R)\n\n"
        "Repository Not Found for url: https://huggingface.co/a/b/resolve/main/config.json.\n"
        "If you are trying to access a private or gated repo, make sure you are authenticated.",
        "a/b is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'",
    )
    gated = CHAIN.format(
        "GatedRepoError: 401 Client Error. (Request ID: R)\n\nAccess to model a/b is restricted.",
        "You are trying to access a gated repo.",
    )

    assert ending(absent).cause == "repository_not_found"
    assert "Check the name" in ending(absent).remedy
    assert ending(gated).cause == "hub_access_not_granted"


def test_the_command_of_vllm_omni_names_the_model() -> None:
    """vllm-omni 0.18.0, entrypoints/cli/main.py: `serve` takes the engine's arguments too."""
    assert read_log(
        "It fails.\n```\nvllm-omni serve some/model-4B \\\n  --omni --port 8093\n```\n"
    ).model == ("some/model-4B")


MIXED = (
    "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: c10::BFloat16 != "
    "c10::Float8_e4m3fn\n"
)
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_INTERNAL_ERROR when calling cublasGemmEx\n"


@pytest.mark.parametrize(
    ("text", "remedy", "other"),
    [
        # torch 2, utils/cpp_extension.py runs ninja by its name.
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'\n", "PATH", ""),
        # PyTorch 2, aten/src/ATen/native/LinearAlgebra.cpp; with and without a draft.
        (
            f"With an FP8 drafter the engine dies:\n```\n{MIXED}```\n",
            "not quantized",
            f"With FP8 weights the engine dies:\n```\n{MIXED}```\n",
        ),
        # CUDA, cublasStatus_t, beside a text that rules out a shortage and one that does not.
        (
            f"{CUBLAS}\nThe cache was nearly empty, so this is not memory pressure.\n",
            "CUBLAS_WORKSPACE_CONFIG",
            CUBLAS,
        ),
    ],
)
def test_words_beside_an_error_tell_which_form_it_has(text: str, remedy: str, other: str) -> None:
    assert remedy in ending(text).remedy
    assert not other or remedy not in ending(other).remedy
