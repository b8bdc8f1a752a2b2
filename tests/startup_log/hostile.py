"""Pieces of which hostile logs are made, each repeated up to the length of a log, as it is or numbered."""

from typing import Final

from service.startup_log.phrases import CAUSES, TEMPLATES

SENTENCES: Final = tuple(
    dict.fromkeys(
        [each.start for each in TEMPLATES] + [each.start for cause in CAUSES for each in cause.templates]
    )
)
"""Beginnings of all messages that are looked for."""
UNITS: Final = (
    "\\\n",
    '"',
    "{",
    '"Authorization": ',
    "token=['a', ",
    "--api-key a ",
    "cookie: ",
    "bearer a",
    "-eyJ",
    "sig=",
    "-----BEGIN PRIVATE KEY-----",
    "\x00",
    "Traceback (most recent call last):\nValueError: a\n",
    "A=A= vllm serve ",
    "\u2028",
    "[",
    "'",
    "a.",
    "(",
    "api_key=",
    "token ",
    "://a",
    "1,",
    "vllm serve ",
    "\n",
    "\r",
    "\x1b[",
    "[a.py:1",
    "A.ValueError: ",
    "eyJaaaaaaaaaaa.",
    "sk-",
    "vllm serve a \\\n",
    "Free memory on device (1/1",
    "hf_a",
    "non-default args: {'a': ",
    "Maximum concurrency for 1",
    "GPU KV cache size: 1,\n",
    "bearer ",
    "&quot;",
    "&",
    "&#39;",
    "services:\n",
    "services:\n  a:\n    command: --model a/b\n",
    "apiVersion: v1\nkind: Pod\n",
    "LLM(\n",
    "LLM(model=[[[[\n",
    ">>> LLM(",
    "```\n",
    "```\nvllm serve a\n```\n",
    "docker run ",
    "docker run vllm \\\n",
    "kubectl exec docker run create \n",
    "a: &a [*a]\n",
    "- vllm: {a: [\n",
    "ValueError: Model architectures ['a'] are not supported for now\n",
    "KeyError: 'layers.0.a'\n",
    'File "a", line 1\nA\n',
    "ERROR 01-01 10:00:00 [core.py:1] ",
    "INFO 01-01 10:00:00 [a.py:1] vLLM API server version 0.19.0\n",
    "Available KV cache memory: 1 GiB\n",
    "EngineDeadError\n",
    "LLM: ",
    "RayTaskError(ValueError): a\n",
    '"POST /v1/a HTTP/1.1" 400\n',
    'File "mamba_utils.py", line 1, in a\n',
    "Killed\n",
    "GPU 0: NVIDIA A",
    "RTX 3090 ",
    "vllm 0.19.0 ",
    "|   0  NVIDIA A  ",
    "MiB / 1MiB ",
    "needs 5 GiB KV left 3 GiB ",
    "KV needs 5.5 ",
    "max_model_len gpu_util 1 GiB ",
    "\u2018",
    "password is 1",
    "key \uff1d1",
    "basic aaaaaaaaaaaaaaaa",
    "hooks.slack.com/services/aaaaaaaa",
    "://a:b@",
    "://a:",
    "set-cookie: a",
    "credentials: [",
    "private key: '",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
    "a ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba ba b\n",
    "(a) ",
    "(Worker pid=1) ",
    "[a]: ",
    "a | ",
    "\xe9",
    "\U0001f600",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
    "2025-01-01T00:00:00Z ",
    "platform ",
    "During handling of the above exception, another exception occurred\n",
    "ValueError: a\nDuring handling of the above exception, another exception occurred\n",
    "x-a:\n",
    "version: 1\n",
    "EngineArgs(a=",
    "model: vllm\n",
    "CUDA error: ",
    "CUDA error: invalid \n",
    "cudaErrorA ",
    "Cuda failure 1 ",
    "AttributeError: 'GPUModelRunner' object has no attribute 'a'\n",
    "TypeError: a.b() got ",
    "KeyError: 'a.1.\n",
    'a.py", line 1, in a\n',
    "raise ValueError('a\n",
    "RuntimeError: CUDA error: out of memory\n",
    "GPU 0: NVIDIA A100\nCUDA runtime version: 12.4\n",
    "Traceback (most recent call last):\n",
    '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in a\n',
    "args:\n- --model\n- a/b\n",
    "Engine core initialization failed. See root cause above. Failed core proc(s): {}\n",
)
"""Beginnings of brackets, quotes, secrets, files, frames and prefixes that do not end."""


def hostile_log(unit: str, size: int) -> str:
    """Return a log of ``size`` characters that repeats one piece."""
    return (unit * (size // len(unit) + 1))[:size]


def numbered_log(unit: str, size: int) -> str:
    """Return a log of ``size`` characters whose lines differ, so that none is known from another one."""
    pieces, length = list[str](), 0
    while length < size:
        pieces.append(unit.replace("\n", f" {len(pieces)}\n"))
        length += len(pieces[-1])
    return "".join(pieces)[:size]
