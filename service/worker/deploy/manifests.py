"""What an operator applies himself: the service holds no credentials of any node."""

import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import yaml

TOKEN_FILE: Final = "/run/dryserve/token"  # noqa: S105 - where one is, not what
STATE: Final = "/var/lib/dryserve"
SECRET: Final = "dryserve-worker"  # noqa: S105 - its name
SHARED_MEMORY: Final = "2Gi"
"""By which the ranks of one engine speak to each other."""
USER: Final = 10001
"""As in the image of the service."""


class Form(StrEnum):
    """Ways to run a worker that are written for others to apply."""

    JOB = "job"
    """One probe on any node with free GPUs, which Kubernetes hands to it alone."""
    DAEMONSET = "daemonset"
    """A worker on every node with GPUs, beside what runs there; it asks for no GPU of its own."""
    DOCKER = "docker"


@dataclass(frozen=True, slots=True)
class Launch:
    """What a worker is started with."""

    server: str
    image: str
    """With the service, and with torch or the engine for more than an inventory."""
    gpus: int = 1
    """GPUs that a Job takes."""
    python: str | None = None
    """Python of the image that has torch or the engine."""
    labels: tuple[str, ...] = ()
    secret: str = SECRET
    """Kubernetes secret whose key ``token`` is a worker's token."""


def manifest(form: Form, launch: Launch) -> str:
    """Return a document for ``kubectl apply``, or a line for a shell."""
    match form:
        case Form.JOB:
            return _yaml(_job(launch))
        case Form.DAEMONSET:
            return _yaml(_daemonset(launch))
        case Form.DOCKER:
            return _docker(launch)


def arguments(launch: Launch, *, once: bool) -> list[str]:
    """Return the worker's own command line, behind the image's entry point."""
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
        "metadata": {"generateName": "dryserve-probe-"},
        "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": 3600, "template": {"spec": pod}},
    }


def _daemonset(launch: Launch) -> dict[str, Any]:
    container = _container(launch, once=False)
    # All GPUs are seen and none is asked for: live servers keep theirs.
    container["env"] = [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    container["args"] += ["--node", "$(NODE_NAME)"]
    pod = {
        **_pod(launch, container),
        "runtimeClassName": "nvidia",
        # Without it the worker could not tell whose processes are on a GPU.
        "hostPID": True,
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    labels = {"app.kubernetes.io/name": "dryserve-worker"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "dryserve-worker", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _pod(launch: Launch, container: dict[str, Any]) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 40,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER},
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
        "args": arguments(launch, once=once),
        # What a child needs of the host: weights are made on the GPU.
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
    # What the engine compiles is written there and loaded from there, which docker does not allow by itself.
    words += ["--tmpfs", "/tmp:exec", "--shm-size", "2g"]  # noqa: S108 - the container's own
    words += ["--volume", f"dryserve-worker:{STATE}"]
    words += ["--volume", f"./worker.token:{TOKEN_FILE}:ro", launch.image]
    return shlex.join(words + arguments(launch, once=False)) + "\n"


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=110)
