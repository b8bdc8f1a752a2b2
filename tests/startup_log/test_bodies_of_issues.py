"""Bodies of issues of 2025 and 2026, with the cause that a reader wrote down before they were explained."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.failures.failure import find_failure
from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines

BODIES = {
    # vllm-project/vllm#36585: the first error has a solution, the second one is asked about.
    "an error of which the text tells the solution": (
        """\
# [Bug]: qwen3.5-27b-gptq deploy fail

However, when deploying the model fine-tuned by swift, a ValueError occurs: Tokenizer class \
TokenizersBackend does not exist or is not currently imported.The solution is also to "use \
the original files for the rest"
 After following this operation, the modified configuration can \
successfully launch the model after sft with vllm;

however, when I use this configuration to quantize the sft model to int8 using gptq, this issue occurs:
```
Value error, The checkpoint you are trying to load has model type qwen3_5_text but Transformers does not \
recognize this architecture.
```
""",
        "unknown_architecture",
    ),
    # modelscope/ms-swift#8098: the traceback is cut, the text says which library wrote the model.
    "a model that a newer library saved": (
        """\
# Unable to deploy fine-tuned Qwen3.5-35-A3B on vLLM

After training a model using version 4.0.0dev from the main branch, the exported model has \
transformers_version set to 5.2.0. However, the current vLLM requires transformers<5, causing the following \
error during VLM deployment
```
(APIServer pid=26) Traceback (most recent call last):
(APIServer pid=26)   File "/usr/local/bin/vllm", line 10, in <module>
(APIServer pid=26)     sys.exit(main())
```
""",
        "transformers_too_old",
    ),
    # vllm-project/vllm-omni#5748: a class of vLLM-Omni, and no model's config.
    "a class of vLLM-Omni without an attribute": (
        "# weekly CI, AttributeError: '_DiffusionVllmModelConfig' object has no attribute 'head_dtype'\n",
        "omni_does_not_match",
    ),
    # vllm-project/vllm#44379: the file was read, since the server runs.
    "a model of GGUF that is served": (
        """\
# [Bug]: [v0.22] Crash when calling API to inference to a GGUF model

Behavior: runing is OK, but after any API calling to models through vllm-router, model crash
**If downgrade to v0.21.0 without changing configuration, working fine**
""",
        "engine_died_serving",
    ),
    # LMCache/LMCache#2306: the message of LMCache, v1/compute/models/utils.py, in the title alone.
    "a message of LMCache": (
        "# ValueError: vllm model for vllm-instance not found.\n",
        "kv_connector_failed",
    ),
    # vllm-project/vllm#20520, #17972 and zai-org/GLM-V#31: who waits for whom.
    "a client that gives up and asks again": (
        """\
# Requests that do not return results within 15 minutes are directly aborted, and then the request will be \
added by vllm again...
""",
        "client_timed_out",
    ),
    "a server that hangs after requests": (
        "# [Bug]: vLLM server hangs and timeouts after initial requests\n",
        "worker_hangs",
    ),
    "a server that hangs, in Chinese": (
        "# vllm server \u957f\u65f6\u95f4\u6302\u8d77, request timeout\n",
        "worker_hangs",
    ),
    # xorbitsai/inference#1232: what PyTorch's check says, in the title alone.
    "a GPU that is not there": (
        "# Failed when launching a vllm model after upgrading to v0.10.0: device >= 0 && device < num_gpus\n",
        "too_few_gpus",
    ),
    # LMCache/LMCache#1909: a check of LMCache, without its calls.
    "a size that LMCache refuses": (
        """\
AssertionError: Buffer size 5368709120 must be a multiple of align bytes 17989632 in paged memory allocator.
""",
        "kv_connector_failed",
    ),
}
MEANINGS = [
    # ai-dynamo/dynamo#979, ls1intum/edutelligence#837, vllm-project/vllm#41863; words by hand.
    ("# [BUG]: nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND\n", "NIXL's backend (UCX"),
    (
        "ImportError: Numba needs NumPy 2.4 or less. Got NumPy 2.5.\n",
        "What Numba asks for is not given: NumPy 2.4 or less. Found was NumPy 2.5.",
    ),
    (
        "ERROR 05-01 15:00:23 [nixl_connector.py:1263] NIXL transfer failure: handshake_setup_failed\n",
        "nothing answered, or another process did",
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n",
        "no memory was left for its handle",
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa)`\n",
        "an earlier kernel had written where it may not",
    ),
    (
        "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx( handle, opa)`\n",
        "no kernel for this product",
    ),
    # modelscope/ms-swift#6506, vllm-project/vllm#53665 and #5601.
    (
        "# Qwen3-VL-4B: vllm infer ERROR, token_lora_mapping.size(0) == M\n",
        "more or fewer rows than the step has tokens",
    ),
    (
        "ERROR [backend_xgrammar.py:162] Failed to advance FSM for request 1-9a368fa2 for tokens 0.\n",
        "a token that the grammar does not allow",
    ),
    (
        "# RuntimeError: No suitable kernel. h_in=16 h_out=4096 dtype=Float out_dtype=Half\n",
        "compiled for a list of sizes and dtypes",
    ),
    (
        "# ImportError: undefined symbol in vllm/_C.abi3.so after an upgrade of torch\n",
        "asks the installed torch for a symbol",
    ),
    (
        "TypeError: Step3ForConditionalGeneration.embed_input_ids() got an unexpected keyword argument 'a'\n",
        "a method of the model's class with other arguments",
    ),
    (
        """\
  File "/usr/lib/python3/site-packages/vllm/config/parallel.py", line 5, in __post_init__
ValueError: num_redundant_experts should be used with EPLB.
""",
        "num_redundant_experts goes only together with EPLB",
    ),
    ("RuntimeError: NIXL is not available\n", "cannot be imported in the engine's own Python"),
]


@pytest.mark.parametrize(("text", "means"), MEANINGS, ids=[row[0][:40] for row in MEANINGS])
def test_cause_of_many_reasons_says_which(text: str, means: str) -> None:
    found = diagnose(read_log(text), None)

    assert found is not None
    assert means in found.means


@pytest.mark.parametrize(("text", "cause"), BODIES.values(), ids=BODIES)
def test_cause_of_a_body(text: str, cause: str) -> None:
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause


def test_name_of_a_checkpoint_is_no_reason() -> None:
    """That weights are not loaded says nothing of the quantization in the model's name."""
    found = find_failure(read_lines("# [Bug]: Loading weights of Qwen3.5-NVFP4 fails on vLLM 0.22\n"))

    assert found is None or found.cause is None


def test_end_of_an_engine_asks_for_what_the_cut_traceback_holds() -> None:
    text = """\
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).
(APIServer pid=1) INFO:     192.168.13.3:42002 - "POST /v1/rerank HTTP/1.1" 500 Internal Server Error
(EngineCore pid=136) Traceback (most recent call last):
"""
    found = diagnose(read_log(text), None)

    assert found is not None
    assert "ends within a traceback" in found.wanted
    assert "above" not in found.remedy


@pytest.mark.parametrize("where", ["On another machine it started", "With v0.10.2 the same model loaded"])
def test_that_another_start_succeeds_mends_no_error(where: str) -> None:
    text = f"""\
ValueError: No available memory for the cache blocks. Try increasing gpu_memory_utilization.

{where} successfully.

AssertionError: no place was seen here
"""
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "no_memory_for_cache_blocks"


@pytest.mark.parametrize(
    "setting", ["enable_sleep_mode=False", "num_speculative_tokens=None", "speculative_config=None"]
)
def test_a_setting_that_is_off_is_no_reason(setting: str) -> None:
    """vLLM 0.6.4 to 0.10.2, entrypoints/openai/api_server.py: all settings, also those at their default."""
    text = (
        f"INFO 06-23 06:27:21 [api_server.py:58] args: Namespace(model='m', {setting})\nKeyError: 'foo_bar'"
    )
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is None


def test_a_library_that_is_too_new_wrote_no_file() -> None:
    text = "# Checkpoint does not load with transformers version 5.2.0, it loads with 4.57\n"
    found = find_failure(read_lines(text))

    assert found is None or found.cause is None or found.cause.name != "transformers_too_old"


def test_a_sentence_on_gpus_is_no_backend_that_refuses() -> None:
    assert find_failure(read_lines("Our kernels run fast. Only SM 9.x and newer GPUs have TMA.\n")) is None


def test_a_symbol_that_another_library_lacks_is_not_of_the_engine_s_extension() -> None:
    text = """\
WARNING [interface.py:1] Failed to import from vllm._C: ModuleNotFoundError
ImportError: /x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E
"""
    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "build_does_not_match"
    assert "_C.abi3.so" not in found.means


def test_what_is_loaded_already_is_an_adapter_only_in_the_server_s_words() -> None:
    found = find_failure(read_lines('It "has already been loaded." The start failed.\n'))

    assert found is None or found.cause is None
