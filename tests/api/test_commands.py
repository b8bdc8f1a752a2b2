"""Plans as commands: over HTTP, in a shell, in containers."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from service.cli.main import cli
from tests.api.plan_bodies import LLAMA_CONFIG

LLAMA = "/plan?model=meta-llama/Llama-3.1-8B&gpu=h100-sxm-80gb&engine_version=0.19.0&kv_cache_dtype=fp8"


def _text(client: TestClient, form: str, address: str = LLAMA) -> str:
    answer = client.get(f"{address}&format={form}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text


def _shell(script: str, argument: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", "-c", script, "sh", argument]
    return subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603 - of the test's own


def test_a_command_is_one_line_that_a_script_can_run(client: TestClient) -> None:
    line = _text(client, "command")
    script = 'vllm() { printf \'%s\\0\' "$@"; }; $(printf %s "$1")'
    ran = _shell(script, line)

    assert line == "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8\n"
    assert ran.stdout.split("\0")[:-1] == ["serve", "meta-llama/Llama-3.1-8B", "--kv-cache-dtype", "fp8"]


def test_a_guess_ahead_needs_no_quotes(client: TestClient) -> None:
    config = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    guess = f"&speculative_config={quote(json.dumps(config))}"
    line = _text(client, "command", LLAMA + guess)

    assert line.split() == shlex.split(line)
    assert "--speculative-config.method ngram" in line


HOSTILE = [
    "a --trust-remote-code b",
    "a  two   spaces ",
    "a; touch owned; b",
    "$(touch owned)",
    "`touch owned`",
    "a'b\"c\\d",
    "* ? [a-z]",
    "a\nb --trust-remote-code",
    "a\tb\x1b[31mred",
    "# a",
    "~/a b",
    "gr\u00fc\u00dfe an dich",
]


def _plan(name: str, tmp_path: Path, *more: str, form: str = "command") -> Result:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    flags = ["--config", str(tmp_path / "config.json"), "--kv-cache-dtype", "auto", "--format", form]
    return CliRunner().invoke(cli, ["plan", name, *flags, *(more or ("--gpu", "h100-sxm-80gb"))])


SHELLS = {"bare": '$(cat "$1")', "eval": 'eval "$(cat "$1")"', "pasted": '. "$1"'}
RUN = 'vllm() { printf \'%s\\0\' "$@"; }; cd "$(dirname "$1")"; '


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("shell", SHELLS)
def test_any_name_stays_one_word_however_the_line_is_run(name: str, shell: str, tmp_path: Path) -> None:
    """`vllm` prints its words. A bare substitution, which obeys no quotes, must not run anything."""
    (tmp_path / "ab").touch()
    line, script = _plan(name, tmp_path).stdout, tmp_path / "line"
    script.write_text(line)
    ran = _shell(RUN + SHELLS[shell], str(script))
    visible = "".join(each if each.isprintable() else " " for each in name)

    assert line.count("\n") == 1
    assert line.rstrip("\n").isprintable()
    assert not (tmp_path / "owned").exists()
    if shell == "bare":
        assert ran.stdout == ""
        assert ran.returncode == 127
    else:
        assert ran.stdout.split("\0")[:-1] == ["serve", visible]


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes", "compose"])
def test_where_nothing_starts_a_shell_gets_nothing_to_run(form: str, tmp_path: Path) -> None:
    more = ("--gpu", "t4-16gb", "--tensor-parallel-size", "1", "--max-model-len", "131072")
    result = _plan("a", tmp_path, *more, "--gpu-memory-utilization", "0.1", form=form)

    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.startswith("# t4-16gb: nothing starts: ")
    assert result.stderr.count("\n") == 1


def test_comments_on_several_gpu_types_never_reach_a_shell(tmp_path: Path) -> None:
    result = _plan("a", tmp_path, "--gpu", "h100-sxm-80gb", "--gpu", "a100-sxm-80gb")

    assert result.stdout == "vllm serve a\nvllm serve a\n"
    assert result.stderr == (
        "# line 1: 1 x h100-sxm-80gb, auto: starts\n# line 2: 1 x a100-sxm-80gb, auto: starts\n"
    )


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes", "compose"])
def test_a_text_with_two_starts_says_that_one_is_planned(form: str, tmp_path: Path) -> None:
    file = tmp_path / "two.sh"
    file.write_text("vllm serve Qwen/Qwen3-8B --port 8000 &\nvllm serve Qwen/Qwen3-4B --port 8001\n", "utf-8")
    words = ["check", "--command-file", str(file), "--gpu", "l40s", "--format", form]
    result = CliRunner().invoke(cli, words)

    assert result.exit_code == 0
    assert "Qwen3-4B" not in result.stdout
    assert result.stderr.startswith("# the text starts the engine 2 times, also at line 2: only the first")


SIXTEEN = LLAMA + "&tensor_parallel_size=8"


def test_docker_starts_no_more_than_one_node(client: TestClient) -> None:
    answer = client.get(f"{SIXTEEN}&pipeline_parallel_size=2&format=docker")

    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/nothing-to-run")
    assert "16 GPUs (TP 8 x PP 2) are 2 nodes of 8" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("more", "first", "others"),
    [
        # vLLM 0.19.0, serve.py run_headless: ranks other than 0 of a group run without an API server.
        (
            "&pipeline_parallel_size=2",
            '--nnodes 2 --master-addr "$LWS_LEADER_ADDRESS" --node-rank 0',
            '--nnodes 2 --master-addr "$LWS_LEADER_ADDRESS" --node-rank "$LWS_WORKER_INDEX" --headless',
        ),
        # 0.11.0 has no --nnodes: replicas of 8 GPUs each on a node of their own.
        (
            "&data_parallel_size=2&engine_version=0.11.0",
            '--data-parallel-size-local 1 --data-parallel-address "$LWS_LEADER_ADDRESS"',
            '--data-parallel-start-rank "$((LWS_WORKER_INDEX * 1))" --headless',
        ),
        (
            "&pipeline_parallel_size=2&engine_version=0.11.0",
            "--distributed-executor-backend ray",
            'until ray start --block --address "$LWS_LEADER_ADDRESS":6379; do sleep 5; done',
        ),
    ],
)  # fmt: skip
def test_several_nodes_are_a_leader_worker_set(
    client: TestClient, more: str, first: str, others: str
) -> None:
    address = SIXTEEN.replace("&engine_version=0.19.0", "") if "engine_version" in more else SIXTEEN
    document = yaml.safe_load(_text(client, "kubernetes", address + more))
    template = document["spec"]["leaderWorkerTemplate"]
    (leader,) = template["leaderTemplate"]["spec"]["containers"]
    (worker,) = template["workerTemplate"]["spec"]["containers"]

    assert (document["kind"], template["size"]) == ("LeaderWorkerSet", 2)
    assert leader["resources"] == worker["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    assert leader["args"][0].endswith(first)
    # Kubernetes makes $( of $$(.
    assert worker["args"][0].replace("$$(", "$(").endswith(others)


def test_docker_runs_the_releases_own_image(client: TestClient) -> None:
    words = shlex.split(_text(client, "docker", LLAMA + "&tensor_parallel_size=2&data_parallel_size=2"))

    assert words[:2] == ["docker", "run"]
    assert words[words.index("--gpus") + 1] == "4"
    assert words[words.index("--entrypoint") + 1 :] == [
        *("vllm", "vllm/vllm-openai:v0.19.0", "serve", "meta-llama/Llama-3.1-8B"),
        *("--tensor-parallel-size", "2", "--data-parallel-size", "2", "--kv-cache-dtype", "fp8"),
    ]


def test_kubernetes_gets_a_whole_deployment(client: TestClient) -> None:
    text = _text(client, "kubernetes", LLAMA + "&tensor_parallel_size=2")
    deployment = yaml.safe_load(text)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]

    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    # apps/v1: the selector must match the labels of the pods.
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", deployment["metadata"]["name"])
    assert container["image"] == "vllm/vllm-openai:v0.19.0"
    assert container["command"] == ["vllm", "serve"]
    assert container["args"] == [
        *("meta-llama/Llama-3.1-8B", "--tensor-parallel-size", "2", "--kv-cache-dtype", "fp8"),
    ]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 2}}
    # Every mount has its volume; ranks share memory.
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["spec"]["volumes"]
    }
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory"}} in pod["spec"]["volumes"]
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["key"] == "token"
    assert not re.search(r"[&*]id\d", text)


@pytest.mark.parametrize("address", ["--host 127.0.0.1", "--host=localhost", "--host ::1"])
def test_a_container_does_not_listen_for_itself_alone(client: TestClient, address: str) -> None:
    body = {
        "command": f"vllm serve meta-llama/Llama-3.1-8B {address} --port 9000",
        "gpus": ["h100-sxm-80gb"],
        "engine": {"version": "0.19.0"},
    }
    asked = {form: client.post("/plan", json={**body, "format": form}).text for form in ("docker", "command")}
    (container,) = yaml.safe_load(client.post("/plan", json={**body, "format": "kubernetes"}).text)["spec"][
        "template"
    ]["spec"]["containers"]

    assert "--host" in asked["command"]
    assert shlex.split(asked["docker"])[-2:] == ["--port", "9000"]
    assert container["args"] == ["meta-llama/Llama-3.1-8B", "--port", "9000"]
    everywhere = {**body, "command": "vllm serve meta-llama/Llama-3.1-8B --host 0.0.0.0", "format": "docker"}
    assert client.post("/plan", json=everywhere).text.endswith("--host 0.0.0.0\n")


@pytest.mark.parametrize("form", ["command", "docker"])
def test_of_several_gpu_types_only_commands_are_answered(client: TestClient, form: str) -> None:
    lines = _text(client, form, LLAMA + "&gpu=a100-sxm-80gb").splitlines()

    assert len(lines) == 2
    assert all(shlex.split(line)[0] in {"vllm", "docker"} for line in lines)


def test_no_manifest_of_several_gpu_types_replaces_another(client: TestClient) -> None:
    """kubectl apply keeps the last of those that have one name."""
    gpus = ["h100-sxm-80gb", "a100-sxm-80gb", "a100-sxm-80gb-mig-3g.40gb", "rtx-pro-6000-server"]
    more = "".join(f"&gpu={each}" for each in gpus[1:])
    text = _text(client, "kubernetes", f"{LLAMA}{more}".replace("kv_cache_dtype=fp8", "max_model_len=8192"))
    documents = list(yaml.safe_load_all(text))
    names = [each["metadata"]["name"] for each in documents]

    assert [each["kind"] for each in documents] == ["Deployment"] * len(gpus)
    assert len(set(names)) == len(gpus)
    for name, document in zip(names, documents, strict=True):
        # Labels and names of Kubernetes: RFC 1123, 63 characters.
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
        assert document["spec"]["selector"]["matchLabels"] == {"app": name}
        assert document["spec"]["template"]["metadata"]["labels"] == {"app": name}
    assert "# for NVIDIA H100 80GB HBM3 (h100-sxm-80gb)" in text
    # GPU feature discovery labels a node with the driver's name; slices are asked for by their own resource.
    products = [each["spec"]["template"]["spec"].get("nodeSelector") for each in documents]
    assert products[0] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert products[1] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert products[2] is None


def test_a_manifest_says_what_it_needs() -> None:
    """Qwen3-32B has 32.8 billion parameters of 2 bytes: 61.0 GiB, and a fifth more on the disk."""
    words = ["plan", "Qwen/Qwen3-32B", "--gpu", "h100", "--format", "kubernetes"]
    result = CliRunner().invoke(cli, words, env={"HF_HUB_OFFLINE": "1"})
    comments = " ".join(result.stderr.split())
    room = re.search(r"named huggingface with (\d+) GiB or more, computed from its parameters", comments)
    assert room is not None
    assert abs(int(room[1]) - 1.2 * 32.762e9 * 2 / 2**30) < 1
    assert "kubectl expose deployment vllm-qwen3-32b --port 8000" in comments
    assert "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}" in comments


SLICE = LLAMA.replace("gpu=h100-sxm-80gb", "gpu=a100-sxm-80gb-mig-3g.40gb").replace("&kv_cache_dtype=fp8", "")


def test_a_slice_is_asked_for_by_its_profile(client: TestClient) -> None:
    """NVIDIA's device plugin names slices nvidia.com/mig-<profile> with the strategy `mixed`."""
    address = SLICE + "&max_model_len=8192"
    pod = yaml.safe_load(_text(client, "kubernetes", address))["spec"]["template"]["spec"]
    words = shlex.split(_text(client, "docker", address))
    (service,) = yaml.safe_load(_text(client, "compose", address))["services"].values()

    assert pod["containers"][0]["resources"] == {"limits": {"nvidia.com/mig-3g.40gb": 1}}
    assert words[words.index("--gpus") + 1] == '"device=<uuid>"'
    assert service["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "device_ids": ["<uuid>"], "capabilities": ["gpu"]}
    ]


def test_compose_starts_what_docker_starts(client: TestClient) -> None:
    """Keys and forms of the Compose specification; a device needs capabilities, and a count or ids."""
    address = LLAMA + "&tensor_parallel_size=2"
    document = yaml.safe_load(_text(client, "compose", address))
    words = shlex.split(_text(client, "docker", address))
    ((name, service),) = document["services"].items()

    assert re.fullmatch(r"[a-zA-Z0-9._-]+", name)
    assert service["image"] == "vllm/vllm-openai:v0.19.0"
    assert [*service["entrypoint"], *service["command"]] == [
        words[words.index("--entrypoint") + 1],
        *words[words.index("vllm/vllm-openai:v0.19.0") + 1 :],
    ]
    assert service["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": 2, "capabilities": ["gpu"]}
    ]
    assert {each.partition(":")[0] for each in service["volumes"]} == set(document["volumes"])
    assert "profiles" not in service


def test_of_several_gpu_types_compose_starts_the_one_that_is_named(client: TestClient) -> None:
    services = yaml.safe_load(_text(client, "compose", LLAMA + "&gpu=l40s"))["services"]

    assert len(services) == 2
    assert len({tuple(each["profiles"]) for each in services.values()}) == 2


def test_compose_replaces_no_variable_of_a_command(tmp_path: Path) -> None:
    """In Compose `$$` is a dollar sign, and `$(` or `${` would be replaced or refused."""
    written = _plan("a$(b)${HOME}", tmp_path, form="compose").stdout
    (service,) = yaml.safe_load(written)["services"].values()

    assert "$" not in " ".join(service["command"]).replace("$$", "")
    assert service["command"][1].replace("$$", "$") == "a$(b)${HOME}"


@pytest.mark.parametrize("form", ["command", "docker", "kubernetes", "compose"])
def test_where_nothing_starts_the_answer_is_a_problem(client: TestClient, form: str) -> None:
    answer = client.get(f"{LLAMA.replace('fp8', 'turboquant_k8v4')}&format={form}")

    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert "h100-sxm-80gb: nothing starts: " in answer.json()["detail"]


@pytest.mark.parametrize("form", ["docker", "kubernetes"])
def test_a_patch_is_in_no_image(form: str, tmp_path: Path) -> None:
    result = _plan("a", tmp_path, "--gpu", "h100-sxm-80gb", "--patch", "vllm#40391", form=form)

    assert result.stderr.startswith("# planned with vllm#40391")


def test_a_doubt_is_on_standard_error(tmp_path: Path) -> None:
    """A release newer than every checked one leaves a doubt, and exit code 4."""
    result = _plan("a", tmp_path, "--gpu", "h100-sxm-80gb", "--engine-version", "0.99.0")

    assert (result.exit_code, result.stdout) == (4, "vllm serve a\n")
    assert result.stderr.startswith("# uncertain: ")
    assert "0.99.0" in result.stderr


@pytest.mark.parametrize("given", ["0.20", "v0.20", "0.20.0"])
def test_one_release_has_one_tag(given: str, client: TestClient) -> None:
    """Docker Hub has vllm/vllm-openai:v0.20.0 and no v0.20."""
    words = shlex.split(_text(client, "docker", LLAMA.replace("0.19.0", given)))

    assert "vllm/vllm-openai:v0.20.0" in words


def test_a_container_gets_the_folder_that_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    line = ["--gpu", "h100", "--max-model-len", "8192", "--format", "docker"]
    words = shlex.split(CliRunner().invoke(cli, ["check", str(tmp_path / "mine"), *line]).stdout)
    assert f"{tmp_path}/mine:{tmp_path}/mine:ro" in words
    monkeypatch.chdir(tmp_path)
    relative = CliRunner().invoke(cli, ["check", "./mine", *line])
    assert "./mine is not in the container" in relative.stderr


def test_a_manifest_of_several_nodes_has_no_host_of_another_place() -> None:
    start = "vllm serve deepseek-ai/DeepSeek-V3.1 --data-parallel-size 16 --data-parallel-size-local 8"
    start += " --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345 --enable-expert-parallel"
    line = ["plan", "--gpu", "h200", "--format", "kubernetes", "--", *start.split(), "--max-model-len", "32k"]
    written = CliRunner().invoke(cli, line)
    (document,) = yaml.safe_load_all(written.stdout)

    assert document["kind"] == "LeaderWorkerSet"
    assert "10.0.0.1" not in written.stdout
    assert "13345" not in written.stdout
    assert "--data-parallel-address 10.0.0.1" in written.stderr
    assert "--data-parallel-size 16" in written.stdout
