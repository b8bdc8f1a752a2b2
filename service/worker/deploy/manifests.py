"""Writes manifests and commands with which an operator starts workers.

The service does not apply them itself, since it has no credentials of any node.
"""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import yaml

TOKEN_FILE: Final = "/run/dryserve/token"  # noqa: S105 - a path
STATE: Final = "/var/lib/dryserve"
SECRET: Final = "dryserve-worker"  # noqa: S105 - a name
SHARED_MEMORY: Final = "2Gi"
"""Shared memory that the ranks of one engine use to communicate."""
USER: Final = 10001
"""User id, the same as in the image of the service."""


JOB_COMMENT: Final = (
    "# For `kubectl create -f -`: the Job has a generateName, which `kubectl apply` refuses.\n"
)
DAEMONSET_COMMENT: Final = "# For `kubectl apply -f -`.\n"


class Form(StrEnum):
    """Ways to run a worker."""

    JOB = "job"
    """A Kubernetes Job: one probe on any node with free GPUs, which Kubernetes reserves for it."""
    DAEMONSET = "daemonset"
    """A Kubernetes DaemonSet: a worker on every node with GPUs; it reserves no GPU for itself."""
    DOCKER = "docker"
    """A `docker run` command."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The options of a worker."""

    server: str
    image: str
    """Image with the service; probes other than an inventory need torch or the engine in it too."""
    gpus: int = 1
    """GPUs that a Job reserves."""
    python: str | None = None
    """Path of the image's Python that has torch or the engine."""
    labels: tuple[str, ...] = ()
    secret: str = SECRET
    """Kubernetes secret whose key ``token`` is a worker's token."""
    namespace: str | None = None
    """Kubernetes namespace; None: that of whoever applies it.

    A DaemonSet needs one whose Pod Security level is ``privileged``, since it sees its host's processes.
    """
    pull_secret: str | None = None
    """Kubernetes secret with the credentials of the image's registry."""
    tolerations: tuple[str, ...] = ()
    """Keys of taints of nodes, beside ``nvidia.com/gpu``, that the worker tolerates."""


def manifest(form: Form, launch: Launch) -> str:
    """Return a YAML document for ``kubectl create`` or ``kubectl apply``, or a shell command for docker."""
    match form:
        case Form.JOB:
            return f"{JOB_COMMENT}{_needs(launch)}{_yaml(_job(launch))}"
        case Form.DAEMONSET:
            return f"{DAEMONSET_COMMENT}{_needs(launch)}{_yaml(_daemonset(launch))}"
        case Form.DOCKER:
            return _docker(launch)


def _needs(launch: Launch) -> str:
    return (
        f"# It needs the Secret {launch.secret} with a worker's token under the key `token`:\n"
        f"# `kubectl create secret generic {launch.secret} --from-file=token=worker.token`\n"
    )


def arguments(launch: Launch, *, once: bool) -> list[str]:
    """Return the worker's arguments, which follow the image's entry point."""
    words = ["worker", "--server", launch.server, "--token-file", TOKEN_FILE, "--state", STATE]
    words += ["--once"] if once else []
    words += [] if launch.python is None else ["--python", launch.python]
    return words + [word for label in launch.labels for word in ("--label", label)]


def _job(launch: Launch) -> dict[str, Any]:
    container = _container(launch, once=True)
    container["resources"]["limits"]["nvidia.com/gpu"] = launch.gpus
    pod = {**_pod(launch, container), "restartPolicy": "Never"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(launch, generateName="dryserve-probe-"),
        "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": 3600, "template": {"spec": pod}},
    }


def _daemonset(launch: Launch) -> dict[str, Any]:
    container = _container(launch, once=False)
    # The worker sees all GPUs and reserves none, so that running servers keep theirs.
    container["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    container["args"] += ["--node", "$(NODE_NAME)"]
    pod = {
        **_pod(launch, container),
        "runtimeClassName": "nvidia",
        # Without it the worker could not see which processes use a GPU.
        "hostPID": True,
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
    }
    labels = {"app.kubernetes.io/name": "dryserve-worker"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {**_metadata(launch, name="dryserve-worker"), "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _metadata(launch: Launch, **name: str) -> dict[str, Any]:
    return {**name, **({"namespace": launch.namespace} if launch.namespace else {})}


def _pod(launch: Launch, container: dict[str, Any]) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 40,
        **({"imagePullSecrets": [{"name": launch.pull_secret}]} if launch.pull_secret else {}),
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoSchedule"}
            for key in ("nvidia.com/gpu", *launch.tolerations)
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "token", "secret": {"secretName": launch.secret, "defaultMode": 0o440}},
            {"name": "state", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        ],
    }


def _container(launch: Launch, *, once: bool) -> dict[str, Any]:
    return {
        "name": "worker",
        "image": launch.image,
        # An image of the engine has an entry point of its own.
        "command": ["dryserve"],
        "args": arguments(launch, once=once),
        # Host resources of a child; it creates the weights directly on the GPU.
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "16Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "token", "mountPath": TOKEN_FILE.rpartition("/")[0], "readOnly": True},
            {"name": "state", "mountPath": STATE},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a volume of the pod's own
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - see above
        ],
    }


def _docker(launch: Launch) -> str:
    words = ["docker", "run", "--rm", "--init", "--gpus", "all", "--pid", "host", "--read-only"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", str(USER)]
    # The engine writes compiled code there and loads it from there; docker's tmpfs is noexec by default.
    words += ["--tmpfs", "/tmp:exec", "--shm-size", "2g"]  # noqa: S108 - the container's own
    words += ["--volume", f"dryserve-worker:{STATE}"]
    words += ["--volume", f"./worker.token:{TOKEN_FILE}:ro", launch.image]
    return shlex.join(words + arguments(launch, once=False)) + "\n"


def _yaml(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_PlainDumper, sort_keys=False, width=110)


class _PlainDumper(yaml.SafeDumper):
    """Writes every value in full, without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Return true: a value that occurs again is written again."""
        del data
        return True
