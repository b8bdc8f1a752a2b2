"""Pieces of starts that people paste: flags without a program, and starts of other engines."""

import pytest

from service.cli.options import SHORT
from service.engines.arguments.arguments import arguments_of
from service.engines.releases import RELEASES
from service.launch_command.launch import UnreadableCommand
from service.launch_command.read_commands import read_command

LENGTH = 8192


SGLANG_GROUP = """
$ kubectl get lws -o yaml
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - image: lmsysorg/sglang:v0.5.10
          command: [python3, -m, sglang.launch_server, --model-path, org/m, --tp, "16", --dist-init-addr]
          args: ["$(LWS_LEADER_ADDRESS):20000", --nnodes, $(LWS_GROUP_SIZE), --node-rank, $(LWS_WORKER_INDEX)]
"""
"""Of the form of LeaderWorkerSet's example of SGLang."""


SGLANG_SERVICE = """
services:
  llm:
    image: lmsysorg/sglang:latest
    entrypoint: python3 -m sglang.launch_server
    command: >
      --model-path org/m
      --mem-fraction-static 0.8
"""


@pytest.mark.parametrize(
    "text",
    [
        "--model org/m --max-model-len 8192",
        "--max-model-len=8192 \\\n  --model=org/m",
        '["--model", "org/m", "--max-model-len", "8192"]',
        '["serve", "org/m", "--max-model-len", "8192"]',
        'The arguments are ["serve", "org/m", "--max-model-len", "8192"].',
        'args: ["--model", "org/m", "--max-model-len=8192"]',
        "- --model=org/m\n- --max-model-len=8192\n",
        '  - "--model"\n  - org/m\n  - "--max-model-len"\n  - "8192"\n',
        'command: ["/bin/sh", "-c"]\nargs: ["vllm serve org/m --max-model-len 8192"]\n',
        "image: vllm/vllm-openai:v0.20.2\nargs:\n- --model\n- org/m\n- --max-model-len\n- 8192\n",
        "env:\n- name: LEN\n  value: '8192'\nargs: [--model, org/m, --max-model-len, $(LEN)]\n",
        '{"args": ["serve", "org/m", "--max-model-len", "8192"], "image": "vllm/vllm-openai"}',
        "export M=org/m\nvllm serve $M --max-model-len ${LENGTH:-8192}",
    ],
)
def test_flags_are_read_without_the_object_around_them(text: str) -> None:
    launch = read_command(text).launch
    length = launch.flag("max_model_len")
    assert (launch.model, length and length.value) == ("org/m", LENGTH)


@pytest.mark.parametrize("text", ['["serve", "run", "app:deployment"]', '["serve", "status"]'])
def test_ray_serve_has_a_command_of_that_name(text: str) -> None:
    with pytest.raises(UnreadableCommand):
        read_command(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "llama-server -m /models/q.gguf -c 32768 -ngl 99",
            "dryserve plan /models/q.gguf --engine llama.cpp --engine-flags '-c 32768 -ngl 99'",
        ),
        (
            "./build/bin/llama-server -hf org/m-GGUF:Q4_K_M \\\n  -c 4096",
            "dryserve plan org/m-GGUF:Q4_K_M --engine llama.cpp --engine-flags '-c 4096'",
        ),
        (
            "python3 -m sglang.launch_server --model-path org/m --tp 2",
            "dryserve plan org/m --engine sglang --engine-flags '--tp 2'",
        ),
        ("trtllm-serve serve org/m", "dryserve plan org/m --engine tensorrt-llm"),
        (
            "docker run lmsysorg/sglang:v0.5.9-cu126 sglang serve --model-path org/m --tp 2",
            "dryserve plan org/m --engine sglang --engine-version 0.5.9 --engine-flags '--tp 2'",
        ),
        (
            "docker run lmsysorg/sglang:latest sglang serve --model-path org/m --trust-remote-code",
            "dryserve plan org/m --engine sglang",
        ),
        (
            SGLANG_GROUP,
            "dryserve plan org/m --engine sglang --engine-version 0.5.10 --engine-flags '--tp 16'",
        ),
        (
            SGLANG_SERVICE,
            "dryserve plan org/m --engine sglang --engine-flags '--mem-fraction-static 0.8'",
        ),
    ],
)
def test_a_start_of_another_engine_is_answered_with_what_to_write(text: str, written: str) -> None:
    with pytest.raises(UnreadableCommand) as refused:
        read_command(text)
    assert str(refused.value).endswith(f"write: {written}")


def test_no_other_engine_is_found_in_words_about_one() -> None:
    with pytest.raises(UnreadableCommand, match=r"no start of vLLM"):
        read_command("my-llama-server-notes: nothing here")


def test_short_names_are_those_of_the_engine() -> None:
    known = arguments_of(RELEASES[-1])
    assert {name: short in known[name].also for name, short in SHORT.items()} == dict.fromkeys(SHORT, True)


@pytest.mark.parametrize(
    "text",
    [
        "args:\n",
        "args: []\nenv: []\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - {name: a, command: [], args: []}\n",
        "services:\n  a:\n    entrypoint: []\n    command: []\n",
    ],
)
def test_a_container_without_words_names_no_model(text: str) -> None:
    with pytest.raises(UnreadableCommand):
        read_command(text)
