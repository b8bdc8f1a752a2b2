"""Starts that a text beside the log holds in files and programs, in the forms in which people paste them."""

import pytest

from service.launch_command.launches import read_launch
from service.startup_log.log import read_log

ENDING = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 232.00 MiB."
COMPOSE = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.19.0
    command: >
      --model Qwen/Qwen3-32B --tensor-parallel-size 2
      --max-model-len 32768
"""
LISTED = """\
services:
  vllm:
    image: vllm/vllm-openai:v0.19.0
    command: ["--model", "Qwen/Qwen3-32B", "--tensor-parallel-size", "2", "--max-model-len", "32768"]
"""
MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: vllm
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.19.0
        args:
        - --model
        - Qwen/Qwen3-32B
        - --max-model-len=32768
        - --tensor-parallel-size=2
"""
PROGRAM = """\
from vllm import LLM, SamplingParams

NAME = "Qwen/Qwen3-32B"
llm = LLM(
    model=NAME,
    tensor_parallel_size=2,
    max_model_len=32768,
)
"""
PROMPT = """\
>>> from vllm import LLM
>>> llm = LLM("Qwen/Qwen3-32B", tensor_parallel_size=2,
...           max_model_len=32768)
"""
IMAGE_ID = """\
docker run -d \\
>   --gpus all \\
>   ee2917e260bb \\
>   serve Qwen/Qwen3-32B \\
>   --tensor-parallel-size 2 --max-model-len 32768
"""
SUBPROCESS = """\
import subprocess
MODEL = "Qwen/Qwen3-32B"
server = subprocess.Popen(
    [
        "vllm", "serve", MODEL,
        "--tensor-parallel-size", str(2),  # don't change [this]
        "--max-model-len", "32768",
    ],
)
"""
MODULE = """\
cmd = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model=Qwen/Qwen3-32B",
       "-tp", "2", "--max-model-len", "32768"]
"""
JSON = """\
{"name": "llm", "cmd": ["/opt/venv/bin/vllm", "serve", "Qwen/Qwen3-32B",
  "--tensor-parallel-size", "2", "--max-model-len", "32768"]}
"""
FAILED = (
    "subprocess.CalledProcessError: Command '['vllm', 'serve', 'Qwen/Qwen3-32B', '-tp', '2', "
    "'--max-model-len', '32768']' returned non-zero exit status 1.\n"
)
INSIDE = "docker exec -it vllm vllm serve Qwen/Qwen3-32B -tp 2 --max-model-len 32768\n"


SNIPPETS = [COMPOSE, LISTED, MANIFEST, PROGRAM, PROMPT, IMAGE_ID, INSIDE, SUBPROCESS, MODULE, JSON]


@pytest.mark.parametrize("snippet", SNIPPETS)
@pytest.mark.parametrize(
    "form", ["{snippet}\n{ending}", "My setup:\n\n```\n{snippet}```\nIt fails:\n{ending}"]
)
def test_a_start_beside_the_log_is_read(snippet: str, form: str) -> None:
    log = read_log(form.format(snippet=snippet, ending=ENDING))

    assert log.model == "Qwen/Qwen3-32B"
    assert log.flags == {"tensor_parallel_size": 2, "max_model_len": 32768}
    assert log.failure is not None
    assert log.failure.type == "OutOfMemoryError"


def test_a_command_that_python_reports_is_read() -> None:
    """The words of subprocess.CalledProcessError for a command that is a list."""
    log = read_log(FAILED)

    assert (log.model, log.flags) == ("Qwen/Qwen3-32B", {"tensor_parallel_size": 2, "max_model_len": 32768})


@pytest.mark.parametrize(
    ("program", "names"),
    [
        ('cmd = ["vllm", "serve", "a/b", "--max-num-seqs", "8"]', ()),
        ('cmd = ["vllm", "serve", "a/b"]\ncmd += ["--max-num-seqs", "8"]', ("cmd",)),
        ('cmd = ["vllm", "serve", "a/b"]\ncmd.extend(more)', ("cmd",)),
        ('run(["vllm", "serve", "a/b"] + more)', ("more",)),
        ('run(["vllm", "serve", "a/b", *more])', ("more",)),
    ],
)
def test_what_a_program_adds_to_a_command_is_said_to_be_missing(program: str, names: tuple[str, ...]) -> None:
    launch = read_launch(program).launch

    assert (launch.model, launch.unresolved) == ("a/b", names)


def test_a_value_that_a_program_calculates_is_as_one_of_a_shell() -> None:
    program = read_launch('run(["vllm", "serve", "a/b", "--max-num-seqs", str(seqs)])').launch
    shell = read_launch("vllm serve a/b --max-num-seqs $seqs").launch

    assert [(each.name, each.missing) for each in program.flags] == [("max_num_seqs", ("seqs",))]
    assert [(each.name, each.missing) for each in shell.flags] == [("max_num_seqs", ("seqs",))]
    assert (program.model, program.unresolved) == (shell.model, shell.unresolved) == ("a/b", ())


def test_the_engines_own_arguments_win() -> None:
    logged = (
        "INFO 01-01 10:00:00 [utils.py:261] non-default args: {'model': 'Qwen/Qwen3-4B', 'max_num_seqs': 4}"
    )
    log = read_log(f"{COMPOSE}\n{logged}\n{ENDING}")

    assert (log.model, log.flags) == ("Qwen/Qwen3-4B", {"max_num_seqs": 4})


@pytest.mark.parametrize(
    "text",
    [
        "def LLM(model):\n    return model\n",
        "class LLM(Base):\n    model = 'a/b'\n",
        "version: 3\nwords: of no start\n",
        "llm = LLM(model=" + "(" * 300,
        "ops = ['vllm::unified_attention', 'vllm::mamba_mixer2']",
        "cmd = ['vllm', 'bench', 'latency', '--model', 'a/b']",
        "cmd = ['vllm', 'serve', MODEL, '--port', '8000']",
        "['vllm', " * 300,
        "services:\n" + "  a: &a [*a, *a]\n" * 50,
    ],
)
def test_what_starts_nothing_names_no_model(text: str) -> None:
    assert read_log(f"{text}\n{ENDING}").model is None


def test_a_secret_of_a_snippet_is_not_among_what_was_read() -> None:
    text = COMPOSE.replace("--max-model-len", "--api-key Zq7xW2vTn9Lk4Rb8 --max-model-len")
    assert "Zq7xW2vTn9Lk4Rb8" not in repr(read_log(f"{text}\n{ENDING}"))


def test_a_pages_source_and_typed_quotes_are_read() -> None:
    escaped = "non-default args: {&#x27;model&#x27;: &quot;Qwen/Qwen3-4B&quot;, &#39;max_num_seqs&#39;: 4}"
    typed = "non-default args: {\u2018model\u2019: \u201cQwen/Qwen3-4B\u201d, \u2018max_num_seqs\u2019: 4}"

    for line in (escaped, typed):
        log = read_log(f"INFO 01-01 10:00:00 [utils.py:261] {line}")
        assert (log.model, log.flags) == ("Qwen/Qwen3-4B", {"max_num_seqs": 4})
