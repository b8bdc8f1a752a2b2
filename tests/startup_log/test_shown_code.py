"""Source code, comments, tables and lists of tasks in a text: none of them is what a program printed."""

import pytest

from service.startup_log.errors.shown_code import is_statement
from service.startup_log.failures.failure import find_failure
from service.startup_log.text.lines import read_lines

MEMORY = "No available memory for the cache blocks."
TRUE = ("NewEngineError", "the queue was lost")
"""What the program printed: of a class and in words that no catalogue has."""

SHOWN = {
    "python": f"""\
```python
import vllm
try:
    llm = LLM(model="org/model")
except ValueError as error:
    # ValueError: {MEMORY}
    print("torch.OutOfMemoryError: CUDA out of memory.")
    log.error("RuntimeError: CUDA error: an illegal memory access was encountered")
```""",
    "python without a language": f"""\
```
from vllm import LLM
raise RuntimeError("{MEMORY}")
```""",
    "quoted source": """\
```python
        if self.pipeline:
            raise ValueError(
                "Pipeline parallelism is not supported for this model."
            )
```""",
    "source without a fence": f"""\
        if self.pipeline > 1:
            raise ValueError(
                "{MEMORY} Try increasing gpu_memory_utilization"
            )""",
    "C++": """\
```cpp
  TORCH_CHECK(false, "CUDA error: no kernel image is available for execution on the device");
  throw std::runtime_error("RuntimeError: CUDA error: out of memory");
```""",
    "change": f"""\
```diff
-    raise ValueError("{MEMORY}")
+    raise ValueError("{MEMORY} Lower it.")
```""",
    "table": f"""\
| Error | Fix |
|---|---|
| `ValueError: {MEMORY}` | raise the utilization |
| torch.OutOfMemoryError: CUDA out of memory | lower it |
""",
    "list of tasks": f"""\
- [ ] CUDA out of memory while loading
- [x] ValueError: {MEMORY}""",
    "comments of YAML": f"""\
services:
  vllm:
    command:
      # ValueError: {MEMORY} came with 0.8
      - --gpu-memory-utilization=0.9
      - --model=org/model
      # RuntimeError: CUDA error: out of memory with 0.95
""",
    "comments of a script": f"""\
#!/bin/bash
# NOTE: without this flag: ValueError: {MEMORY}
# torch.OutOfMemoryError: CUDA out of memory
vllm serve org/model --max-model-len 4096""",
    "what grep finds": f"""\
vllm/v1/core/kv_cache_utils.py:612:            raise ValueError("{MEMORY} "
vllm/worker/worker.py:33:        except torch.OutOfMemoryError:""",
    "source below a call": """\
Traceback (most recent call last):
  File "/usr/lib/python3.12/site-packages/engine/core.py", line 700, in run
    raise RuntimeError("CUDA error: out of memory") from None
  File "/usr/lib/python3.12/site-packages/engine/steps.py", line 3, in go
    # No available memory for the cache blocks.
    go()""",
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_what_no_program_printed_is_no_failure(shown: str) -> None:
    found = find_failure(
        read_lines(f"# [Bug]: the engine stops\n\n{shown}\nNewEngineError: the queue was lost\n")
    )
    assert found is not None
    assert (found.type, found.message) == TRUE
    assert found.cause is None


@pytest.mark.parametrize("name", ["list of tasks", "change"])
def test_without_anything_else_nothing_failed(name: str) -> None:
    assert find_failure(read_lines(SHOWN[name])) is None


@pytest.mark.parametrize("name", ["table", "comments of YAML", "comments of a script"])
def test_without_anything_else_a_note_is_a_persons(name: str) -> None:
    found = find_failure(read_lines(SHOWN[name]))
    assert found is not None
    assert found.paraphrased


def test_a_block_of_python_can_hold_a_traceback() -> None:
    text = f"```python\nllm = LLM(model='org/model')\nValueError: {MEMORY}\n```\n"
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "no_memory_for_cache_blocks"


def test_a_statement_is_all_that_is_left_of_an_exception() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/usr/lib/python3.12/site-packages/vllm/v1/core/kv_cache_utils.py", line 700, in check_enough
    raise ValueError("{MEMORY}")
"""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "no_memory_for_cache_blocks"


@pytest.mark.parametrize(
    "text",
    [
        "if I start it with two GPUs the engine dies:",
        "return to the prompt after CUDA out of memory",
        "assertion failed: CUDA out of memory",
        "raise an issue with the log",
        "except for this model all start",
        'File "/a/b.py", line 3, in go',
        "RuntimeError: CUDA error: out of memory",
    ],
)
def test_a_sentence_is_no_statement(text: str) -> None:
    assert not is_statement(text)


def test_of_two_errors_of_one_kind_that_with_the_calls_ended_the_process() -> None:
    text = """\
mkdir -p failed for path /.config/matplotlib: [Errno 13] Permission denied: '/.config'
PermissionError: [Errno 13] Permission denied: '/.config'
ERROR 11-02 10:11:12 [core.py:800] EngineCore failed to start.
ERROR 11-02 10:11:12 [core.py:800] Traceback (most recent call last):
ERROR 11-02 10:11:12 [core.py:800]   File "/p/triton/runtime/cache.py", line 97, in __init__
ERROR 11-02 10:11:12 [core.py:800] PermissionError: [Errno 13] Permission denied: '/.triton'
"""
    found = find_failure(read_lines(text))
    assert found is not None
    assert found.message.endswith("'/.triton'")
