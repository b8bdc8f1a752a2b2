"""Starts in what people write about them: the forms are those of public threads, the values are ours."""

from typing import Any

import pytest

from service.launch_command.command_reading import CommandReading
from service.launch_command.launch import UnreadableCommand
from service.launch_command.read_commands import read_command

SERVICE = """
  embeddings:
    image: vllm/vllm-openai:v0.19.0
    command:
      - "--model"
      - "org/m"
      - "--tensor-parallel-size"
      - "2"
    restart: always
"""
DOCKER = "docker run --gpus all vllm/vllm-openai:v0.19.0 --model org/m -tp 2"


def facts(reading: CommandReading) -> tuple[Any, ...]:
    launch = reading.launch
    tensor = launch.flag("tensor_parallel_size")
    return launch.model, launch.release.version, tensor and tensor.value, launch.line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"This worked, it's here:\n\ncommand: `{DOCKER}`\n\nThanks!", 3),
        (f"It doesn't start with `{DOCKER}` and I don't know why", 1),
        (
            "It is like:\n`docker run vllm/vllm-openai:v0.19.0 \\\n  --model org/m \\\n  -tp 2\n`\nIt's so.",
            2,
        ),
        (f"```text\n1. It's the first\n\n`sudo {DOCKER}\n\n2. `Error code: 400", 4),
        (f"This one works:\n\n```{DOCKER}```\n\nThat doesn't", 3),
        (f"My file, it's this:\n```docker-compose{SERVICE}```\nHere it's all of it", 6),
        (f"> it's this:\n>\n> ```\n> {DOCKER}\n> ```\n", 4),
        (
            (
                "```diff\n-vllm serve org/n\n+docker run vllm/vllm-openai:v0.19.0 \\\n+  --model org/m \\\n"
                "+  -tp 2\n+```\n+* It's it."
            ),
            3,
        ),
        (f'The command, it is:\n"""\n{DOCKER}\n"""\nIt\'s so.', 3),
        (f"+export A=1\n+\n+{DOCKER}\n+```\n+", 3),
    ],
)
def test_code_in_a_persons_words_is_read(text: str, line: int) -> None:
    assert facts(read_command(text)) == ("org/m", "0.19.0", 2, line)


@pytest.mark.parametrize(
    "text",
    [
        "It's `vllm` that I'd like to use",
        "> it's about `docker run hello-world`",
        "```\nvllm --version\n```\nit's old",
    ],
)
def test_words_about_the_engine_are_no_start(text: str) -> None:
    with pytest.raises(UnreadableCommand):
        read_command(text)


@pytest.mark.parametrize(
    ("around", "version"),
    [
        (
            "{}\n(APIServer pid=7) INFO 11-18 14:16:17 [api_server.py:1839] vLLM API server version 0.11.0",
            "0.11.0",
        ),
        ("{}\nINFO 01-02 [core.py:58] Initializing a V1 LLM engine (v0.11.2) with config: x", "0.11.2"),
        ("vllm==0.19.1\n\n{}", "0.19.1"),
        ("- vLLM 0.18.0\n- CUDA 13.0\n\n{}", "0.18.0"),
        ("vLLM Version                 : 0.20.2\n{}", "0.20.2"),
        ("{}\n(APIServer pid=1) INFO  \u2584\u2584 \u2588   \u2588  version 0.25.1", "0.25.1"),
        ("# in the container vllm/vllm-openai:v0.24.0-ubuntu2404\n{}", "0.24.0"),
        ("{}\n\u2588  version 0.20.2rc1.dev129+g1acd67a79", None),
        # Not in a line of its own, or not one release.
        ("It works since vLLM 0.12.0 or so.\n{}", None),
        ("vLLM 0.18.0\nvllm==0.19.1\n{}", None),
    ],
)
def test_the_release_that_the_lines_around_say_is_taken(around: str, version: str | None) -> None:
    assert read_command(around.format("vllm serve org/m")).launch.release.version == version
    image = read_command(around.format("docker run vllm/vllm-openai:v0.14.0 --model org/m"))
    assert image.launch.release.version == "0.14.0"


def test_a_model_in_a_folder_is_no_program() -> None:
    text = "services:\n  s:\n    image: me/vllm-openai:x\n    command: [{}, --max-num-seqs, '12']\n"
    assert read_command(text.format("/models/m")).launch.model == "/models/m"
    with pytest.raises(UnreadableCommand):
        read_command(text.format("/opt/start.sh"))


def test_a_command_of_one_word_is_named() -> None:
    """kubernetes.io, Define a Command and Arguments: no shell splits a command."""
    text = """
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.19.0
    command: ["python3 -m vllm.entrypoints.openai.api_server --model org/m -tp 2"]
"""
    found = read_command(text)
    assert facts(found)[:3] == ("org/m", "0.19.0", 2)
    assert any("one word with spaces" in note for note in found.notes)


def test_a_number_of_ranks_that_is_not_given_leaves_no_gpu_idle() -> None:
    text = """
services:
  vllm:
    image: vllm/vllm-openai:v0.19.0
    command: --model org/m --tensor-parallel-size ${TP} --served-model-name ${SERVED_TP}
    environment: [CUDA_VISIBLE_DEVICES=0,1]
"""
    found = read_command(text)
    assert not any("gives the start" in note for note in found.notes)
    missing = {flag.name: flag.missing for flag in found.launch.flags if flag.missing}
    assert missing == {"tensor_parallel_size": ("TP",), "served_model_name": ("SERVED_TP",)}


def test_a_container_that_docker_inspect_prints_is_read() -> None:
    """Docker Engine API, ContainerInspect: Path and Args are the words; DeviceRequests the GPUs."""
    text = """
[
  {
    "Id": "260ebbfee88f",
    "Path": "vllm",
    "Args": ["serve", "org/m", "--tensor-parallel-size", "2"],
    "Config": {"Image": "vllm/vllm-openai:v0.19.0", "Env": ["VLLM_LOGGING_LEVEL=DEBUG"]},
    "HostConfig": {"DeviceRequests": [{"Driver": "", "Count": 0, "DeviceIDs": ["2", "3"]}]}
  }
]
"""
    found = read_command(text)
    assert facts(found)[:3] == ("org/m", "0.19.0", 2)
    assert found.launch.environment == {"VLLM_LOGGING_LEVEL": "DEBUG"}
    assert found.launch.placement.devices == ("2", "3")


POD = """
Name:             vllm-7d9c
Containers:
  vllm:
    Container ID:  containerd://3e30114e2a7f
    Image:         vllm/vllm-openai:v0.19.0
    Image ID:      docker.io/vllm/vllm-openai@sha256:6cf9808ca881
    Port:          8000/TCP
    Args:
      --model
      org/m
      --tensor-parallel-size=2
      --api-key
      $(KEY)
    State:          Running
      Started:      Mon, 01 Jan 2026
    Limits:
      nvidia.com/gpu:  2
    Environment:
      VLLM_LOGGING_LEVEL:  DEBUG
      KEY:                 <set to the key 'k' in secret 's'>  Optional: false
  sidecar:
    Image:  nginx
    Args:
      -g
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), ("$ kubectl describe pod vllm\n", "it's all\n"), ("I've this:\n```\n", "```\nIt's it.\n")],
)
@pytest.mark.parametrize("framed", [False, True])
def test_a_pod_that_kubectl_describes_is_read(before: str, after: str, framed: bool) -> None:
    """kubernetes.io, kubectl describe: one word of a container's arguments a line."""
    pod = "\n".join(f"\u2502 {line:60} \u2502" for line in POD.split("\n")) if framed else POD
    found = read_command(before + pod + after)
    assert facts(found)[:3] == ("org/m", "0.19.0", 2)
    assert found.launch.placement.gpus_per_node == 2
    assert found.launch.environment["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert found.launch.unresolved == ()
    assert found.faults == ()
