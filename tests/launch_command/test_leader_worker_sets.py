"""A LeaderWorkerSet is read as one engine on several nodes, as the controller fills it in.

Source: LeaderWorkerSet, reference "Labels, annotations and environment variables"; vLLM and SGLang document
the forms of the commands.
"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from service.cli.main import cli
from service.launch_command.command_reading import CommandReading
from service.launch_command.read_commands import read_command, read_commands

HEAD = """\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 3
  leaderWorkerTemplate:
    size: 2
"""
TEMPLATE = """\
    ROLETemplate:
      spec:
        containers:
        - name: vllm-ROLE
          image: docker.io/vllm/vllm-openai:v0.24.0
          env: [{name: VLLM_LOGGING_LEVEL, value: DEBUG}]
          command: [sh, -c, "COMMAND"]
          resources: {limits: {nvidia.com/gpu: "8"}}
"""
NODES = (
    "vllm serve org/m --tensor-parallel-size 8 --pipeline-parallel-size $(LWS_GROUP_SIZE) --nnodes "
    "$(LWS_GROUP_SIZE) --node-rank $(LWS_WORKER_INDEX) --master-addr $(LWS_LEADER_ADDRESS)"
)
RAY = "bash multi-node-serving.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE); vllm serve org/m -tp 8 -pp 2"
JOIN = "bash multi-node-serving.sh worker --ray_address=$(LWS_LEADER_ADDRESS)"


def template(role: str, command: str) -> str:
    return TEMPLATE.replace("ROLE", role).replace("COMMAND", command)


PROCESSES = HEAD + template("leader", NODES) + template("worker", f"{NODES} --headless")
CLUSTER = HEAD + template("leader", RAY) + template("worker", JOIN)
ALIKE = HEAD + template("worker", NODES)


def facts(reading: CommandReading) -> tuple[object, ...]:
    launch = reading.launch
    sizes = [launch.flag(name) for name in ("tensor_parallel_size", "pipeline_parallel_size")]
    return (
        launch.model,
        launch.release.version,
        launch.placement.gpus_per_node,
        launch.placement.nodes,
        launch.placement.replicas,
        launch.environment.get("VLLM_LOGGING_LEVEL"),
        *(size and size.value for size in sizes),
    )


@pytest.mark.parametrize("text", [PROCESSES, CLUSTER, ALIKE])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("$ kubectl get lws vllm -o yaml\n", "exit code: 0\n"),
        ("Here is what I apply:\n\n```yaml\n", "```\n\nIt waits for ever.\n0\n"),
        ("user@host:~$ cat lws.yaml\n", "user@host:~$ echo $?\n0\n(venv) user@host:~$ "),
        ("# written by hand\n---\n", "---\napiVersion: v1\nkind: Service\n"),
    ],
)
def test_a_group_is_one_engine_whatever_stands_around_it(text: str, before: str, after: str) -> None:
    (start,) = read_commands(before + text + after)
    assert facts(start) == ("org/m", "0.24.0", 8, 2, 3, "DEBUG", 8, 2)
    assert start.faults == ()
    assert start.launch.unresolved == ()


def test_lines_that_are_left_out_are_named() -> None:
    notes = read_command(f"$ cat lws.yaml\n{CLUSTER}exit code: 0\n").notes
    (note,) = (each for each in notes if each.startswith("Not read"))
    lines = len(CLUSTER.splitlines()) + 2
    assert f"line 1 ('$ cat lws.yaml'), line {lines} ('exit code: 0')" in note


def test_an_address_that_the_controller_gives_is_no_secret() -> None:
    carried = read_command(PROCESSES).carried
    assert carried.left_out == ()
    assert carried.not_given == (("--master-addr", "$(LWS_LEADER_ADDRESS)"),)


def test_a_template_that_is_not_rendered_says_so() -> None:
    text = PROCESSES.replace("size: 2", "size: {{ .Values.size }}").replace(
        "-size 8", "-size {{ .Values.tp }}"
    )
    text = text.replace("    leaderT", "{{- if .Values.two }}\n    leaderT") + "{{- end }}\n"
    found = read_command(text)
    assert (found.launch.model, found.launch.release.version) == ("org/m", "0.24.0")
    assert any("template is not rendered" in note for note in found.notes)
    missing = {flag.name: flag.missing for flag in found.launch.flags if flag.missing}
    assert missing["tensor_parallel_size"] == ("<tp>",)
    assert missing["nnodes"] == ("$(LWS_GROUP_SIZE)",)


def test_a_group_that_a_plan_writes_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of a manifest is the plan from which it was written; 16 GPUs are two nodes of 8."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = [
        "deepseek-ai/DeepSeek-V3.1",
        "--gpu",
        "h200:16",
        "-dp",
        "16",
        "-ep",
        "--engine-version",
        "0.24.0",
    ]
    runner = CliRunner()
    written = runner.invoke(cli, ["plan", *asked, "--format", "kubernetes"])
    planned = json.loads(runner.invoke(cli, ["plan", *asked]).output)["plans"][0]["recommended"]
    path = tmp_path / "lws.yaml"
    path.write_text(f"$ cat lws.yaml\n{written.stdout}exit code: 0\n", "utf-8")
    checked = json.loads(runner.invoke(cli, ["check", "--gpu", "h200", "--command-file", str(path)]).output)
    assert checked["engine"]["version"] == "0.24.0"
    assert checked["plans"][0]["recommended"]["kv_cache"]["tokens"] == planned["kv_cache"]["tokens"]
    shared = runner.invoke(cli, ["colocate", str(path), "--gpu", "h200", "--format", "table"]).output
    assert "2 nodes of 8 GPUs, vLLM 0.24.0" in shared
