"""Bodies of issues of 2025 and 2026, with the cause that a reader wrote down before they were explained."""

import pytest

from service.startup_log.failures.failure import find_failure
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
}


@pytest.mark.parametrize(("text", "cause"), BODIES.values(), ids=BODIES)
def test_cause_of_a_body(text: str, cause: str) -> None:
    found = find_failure(read_lines(text))

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == cause
