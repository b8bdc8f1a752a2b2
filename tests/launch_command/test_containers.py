"""What containers see: volumes, and variables from outside, as Docker, Compose and Kubernetes say."""

import re

import pytest

from service.launch_command.launch import UnreadableCommand
from service.launch_command.read_commands import read_command
from service.launch_command.shell.starts import CACHE_OF_HOST


@pytest.mark.parametrize(
    ("volume", "of_host"),
    [
        ("-v huggingface:/root/.cache/huggingface", False),
        ("--mount type=volume,src=hf,dst=/root/.cache/huggingface", False),
        ("--mount type=bind,src=/models,dst=/root/.cache/huggingface", True),
        ("-v $HOME/.cache/huggingface:/root/.cache/huggingface", True),
        ("-v ./cache:/root/.cache/huggingface", True),
        ("-v C:/Users/me/.cache/huggingface:/root/.cache/huggingface", True),
    ],
)
def test_a_volume_that_docker_names_is_not_shared_with_the_host(volume: str, of_host: bool) -> None:
    """docs.docker.com, Volumes: the first field of -v is the volume's name, or else a path of the host."""
    line = f"docker run --gpus all {volume} vllm/vllm-openai:v0.19.0 --model Qwen/Qwen3-8B"
    assert (CACHE_OF_HOST in read_command(line).notes) is of_host


@pytest.mark.parametrize(
    "text",
    [
        "docker run -e MODEL=org/m vllm/vllm-openai:v0.19.0 --model other/m",
        """MODEL=org/m bash -c 'vllm serve "$MODEL"'""",
        """export MODEL=org/m; bash -c 'bash -c "vllm serve \\$MODEL"'""",
        """docker run -e MODEL=org/m --entrypoint sh vllm/vllm-openai:v0.19.0 -c 'vllm serve $MODEL'""",
    ],
)
def test_a_shell_has_the_variables_of_its_process(text: str) -> None:
    """POSIX.1-2024, Shell Command Language, 2.5.3: variables are initialized from the environment."""
    assert read_command(text).launch.model == ("other/m" if "other" in text else "org/m")


@pytest.mark.parametrize(
    ("word", "model"),
    [
        ("$$MODEL", "org/m"),
        ("$${MODEL}", "org/m"),
        # These are of the shell that calls Compose, whatever the container has.
        ("$MODEL", None),
        ("${MODEL}", None),
        ("${MODEL:-org/default}", "org/default"),
    ],
)
@pytest.mark.parametrize("form", ['["-c", "vllm serve {}"]', "-c 'vllm serve {}'"])
def test_compose_replaces_what_is_not_doubled(word: str, model: str | None, form: str) -> None:
    """docs.docker.com, Compose file, Interpolation: a doubled dollar sign is a dollar sign."""
    text = f"""
services:
  vllm:
    image: vllm/vllm-openai:v0.19.0
    entrypoint: sh
    environment: {{MODEL: org/m}}
    command: {form.format(word)}
"""
    launch = read_command(text).launch
    assert launch.model == model
    assert launch.unresolved == (() if model else ("MODEL",))


def test_kubernetes_replaces_what_stands_in_brackets() -> None:
    """kubernetes.io, Define a Command and Arguments: $(VAR); a shell replaces $VAR."""
    for word in ("$(MODEL)", "$MODEL", "${MODEL}", "$$MODEL"[1:]):
        text = f"""
apiVersion: v1
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.19.0
    command: [sh, -c]
    args: ["vllm serve {word}"]
    env: [{{name: MODEL, value: org/m}}]
"""
        assert read_command(text).launch.model == "org/m"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('    args: ["--model, "org/m"]', """line 6: this is no YAML: 'args: ["--model, "org/m"]'"""),
        ("\tcontainers:", "YAML takes no tab"),
        ("  - image: vllm/vllm-openai:v0.19.0\n   bad", "line 7: this is no YAML: 'bad'"),
    ],
)
def test_a_line_that_is_no_yaml_is_quoted(line: str, words: str) -> None:
    text = f"""apiVersion: v1
kind: Pod
spec:
  containers:
  - name: vllm
{line}
"""
    with pytest.raises(UnreadableCommand, match=re.escape(words)):
        read_command(text)
