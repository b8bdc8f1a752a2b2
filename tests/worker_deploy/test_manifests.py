"""What operators apply is what Kubernetes, docker and the worker itself accept."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubernetes_validate.utils import all_versions
from typer.main import get_command
from typer.testing import CliRunner

from service.cli.main import cli
from service.worker.deploy.manifests import (
    TOKEN_FILE,
    Form,
    Launch,
    arguments,
    manifest,
)

LAUNCH = Launch("https://dryserve.example", "dryserve:1", 2, "/opt/vllm/bin/python", ("a", "b"))


@pytest.mark.parametrize("form", [Form.JOB, Form.DAEMONSET])
@pytest.mark.parametrize("version", all_versions())
def test_kubernetes_knows_every_word(form: Form, version: str) -> None:
    document = yaml.safe_load(manifest(form, LAUNCH))
    kubernetes_validate.validate(document, version, strict=True)


def pod(form: Form) -> Any:  # noqa: ANN401 - a document
    return yaml.safe_load(manifest(form, LAUNCH))["spec"]["template"]["spec"]


def test_a_job_takes_its_gpus_and_a_daemonset_none() -> None:
    (job,), (daemon,) = (pod(form)["containers"] for form in (Form.JOB, Form.DAEMONSET))
    assert job["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert "--once" in job["args"]
    assert "nvidia.com/gpu" not in daemon["resources"]["limits"]
    assert "--once" not in daemon["args"]


@pytest.mark.parametrize("form", [Form.JOB, Form.DAEMONSET])
def test_a_namespace_a_registry_and_taints_are_named(form: Form) -> None:
    launch = replace(LAUNCH, namespace="gpus", pull_secret="registry", tolerations=("pool",))  # noqa: S106
    text = manifest(form, launch)
    document = yaml.safe_load(text)
    assert "&id" not in text
    assert document["metadata"]["namespace"] == "gpus"
    assert ("generateName" if form is Form.JOB else "name") in document["metadata"]
    spec = document["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu", "pool"]
    assert spec["containers"][0]["command"] == ["dryserve"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    kubernetes_validate.validate(document, "1.37", strict=True)
    bare = yaml.safe_load(manifest(form, LAUNCH))
    assert "namespace" not in bare["metadata"]
    assert "imagePullSecrets" not in bare["spec"]["template"]["spec"]


@pytest.mark.parametrize("form", [Form.JOB, Form.DAEMONSET])
def test_a_pod_has_no_rights_beyond_its_token(form: Form) -> None:
    spec = pod(form)
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "privileged" not in container["securityContext"]
    written = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"/tmp", "/dev/shm", "/var/lib/dryserve"}  # noqa: S108 - the pod's own volumes
    assert str(Path(TOKEN_FILE).parent) in {mount["mountPath"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("once", [True, False])
def test_the_worker_takes_its_arguments(once: bool, tmp_path: Path) -> None:
    words = [word.replace(TOKEN_FILE, str(tmp_path / "token")) for word in arguments(LAUNCH, once=once)]
    (tmp_path / "token").touch()
    command: Any = get_command(cli)
    context = command.commands["worker"].make_context("worker", words[1:])
    assert words[0] == "worker"
    assert context.params["server"] == LAUNCH.server
    assert context.params["once"] is once
    assert context.params["label"] == ["a", "b"]
    assert context.params["python"] == Path("/opt/vllm/bin/python")


def test_the_docker_line() -> None:
    words = shlex.split(manifest(Form.DOCKER, LAUNCH))
    assert words[:3] == ["docker", "run", "--rm"]
    assert words[words.index(LAUNCH.image) + 1 :] == arguments(LAUNCH, once=False)
    assert "--privileged" not in words
    # Docker's temporary file systems are not executable by themselves; what is compiled is loaded from there.
    assert words[words.index("--tmpfs") + 1] == "/tmp:exec"  # noqa: S108 - the container's own


def test_the_command_prints_it() -> None:
    options = ["--server", LAUNCH.server, "--image", LAUNCH.image]
    result = CliRunner().invoke(cli, ["manifest", "docker", *options])
    assert result.exit_code == 0
    assert result.output == manifest(Form.DOCKER, Launch(LAUNCH.server, LAUNCH.image))
