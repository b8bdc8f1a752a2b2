"""Writes a Deployment of what a plan recommends, or a LeaderWorkerSet for several nodes."""

import re
import shlex
from typing import Any, Final

from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate, Plan
from service.application.text.container import (
    CACHE,
    NOT_THERE,
    Block,
    as_yaml,
    folders,
    image,
    in_container,
    left_out,
    name_of,
    nodes_of,
    patched,
    port,
    slice_of,
)
from service.application.text.words import printable
from service.bundled_toml import read_toml
from service.gpus.gpu_type import GpuType, MemoryBasis
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from service.units import GIB, ceil_div

SPARE_DISK: Final = 1.2
"""Disk for a checkpoint as a multiple of its bytes: a download needs room for parts of files."""
GPU: Final = "nvidia.com/gpu"
PRODUCT: Final = "nvidia.com/gpu.product"
WHERE_MIXED: Final = "where nodes have other GPUs too, add to the pod's spec nodeSelector"
LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,61}[A-Za-z0-9]", re.ASCII)
"""What is left as it is in the value of a label, but for its spaces."""
MIXED: Final = f"its name where the device plugin's MIG strategy is mixed; with single it is {GPU}"
LEADER: Final = '"$LWS_LEADER_ADDRESS"'
RANK: Final = '"$LWS_WORKER_INDEX"'
"""What a LeaderWorkerSet tells its pods."""
RAY_PORT: Final = 6379


def _since() -> Version:
    return Version(read_toml("service.application.text", "multi_node.toml")["nnodes"]["since"])


NNODES_SINCE: Final = _since()


PLACED: Final = re.compile(
    r" --(?:data-parallel-(?:address|rpc-port|start-rank|size-local)"
    r"|nnodes|node-rank|master-addr|master-port)[ =]\S+"
)
"""Options that say on which of which hosts a process runs: a manifest of several nodes sets its own."""


def kubernetes(plan: Plan, gpu: GpuType, best: Candidate) -> Block:
    """Return the manifest for one GPU type; where there are several types, it says which it is for."""
    several = nodes_of(best) > 1
    document = _leader_worker_set(plan, gpu, best) if several else _deployment(plan, gpu, best)
    shared = " (ReadWriteMany)" if several else ""
    needs = f"needs a PersistentVolumeClaim named huggingface{_room(best)}{shared}"
    secret = "for a gated model also a Secret named huggingface with the key token"  # noqa: S105 - a name
    absent = (f"{each} {NOT_THERE}" for each in folders(best))
    placed = PLACED.findall(shlex.join(best.command_words)) if several else ()
    replaced = (f"left out{''.join(placed)}: the manifest sets its own hosts",) if placed else ()
    container = in_container(best)[1]
    profile = slice_of(gpu)
    sliced = () if profile is None else (f"{_resource(gpu)} is {MIXED}",)
    name = name_of(plan, gpu, best)
    writes = f"a Service that selects app: {name} reaches it"
    if not several:
        writes += f"; kubectl expose deployment {name} --port {port(best)} makes one"
    product = _product(gpu)
    nodes = () if not product or len(plan.plans) > 1 else (f"{WHERE_MIXED}: {{{PRODUCT}: {product}}}",)
    needed = (*patched(plan), f"{needs}; {secret}", writes, *nodes, *sliced)
    comments = (*needed, *container, *absent, *replaced, *left_out(best))
    return Block(comments, f"{_meant_for(plan, gpu)}{as_yaml(document)}")


def _meant_for(plan: Plan, gpu: GpuType) -> str:
    """Return a comment that says which GPUs a manifest is for, where there are several; else nothing."""
    if len(plan.plans) == 1:
        return ""
    name, product = " ".join(printable(gpu.name).split()), _product(gpu)
    nodes = f"; it runs on nodes that GPU feature discovery labels {PRODUCT}: {product}" if product else ""
    return f"# for {name} ({gpu.id}){nodes}\n"


def _product(gpu: GpuType) -> str:
    """Return the label of nodes with a GPU type of the catalog; empty for a slice or a caller's own type.

    Source: NVIDIA k8s-device-plugin, internal/lm/resource.go: the driver's name with dashes for spaces.
    """
    if gpu.is_slice or gpu.memory_basis is MemoryBasis.GIVEN or not gpu.name.startswith("NVIDIA "):
        return ""
    return "-".join(gpu.name.split()) if LABEL.fullmatch(gpu.name) else ""


def _resource(gpu: GpuType) -> str:
    """Return what the device plugin calls a GPU, or a slice with the strategy that names profiles.

    Source: NVIDIA k8s-device-plugin, MIG strategy ``mixed``: ``nvidia.com/mig-<profile>``.
    """
    profile = slice_of(gpu)
    return GPU if profile is None else f"nvidia.com/mig-{profile}"


def _room(best: Candidate) -> str:
    """Return how much disk the model needs: by the bytes of its checkpoint, or else by its parameters."""
    size, computed = best.model.checkpoint_bytes, ""
    if size is None and best.start is not None:
        release = best.start.engine_config.release
        size = parameter_bytes(best.model.architecture, Parallelism(), release)
        computed = ", computed from its parameters"
    if size is None:
        return ""
    return f" with {ceil_div(int(size * SPARE_DISK), GIB)} GiB or more{computed}"


def _deployment(plan: Plan, gpu: GpuType, best: Candidate) -> dict[str, Any]:
    program, subcommand, *arguments = in_container(best)[0]
    serving = _container(plan, best, [program, subcommand], arguments, {_resource(gpu): best.gpus})
    name = name_of(plan, gpu, best)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {**_placed(plan, gpu), **_pod(serving)},
            },
        },
    }


def _placed(plan: Plan, gpu: GpuType) -> dict[str, Any]:
    """Return on which nodes pods run, where there are manifests of several GPU types."""
    product = _product(gpu)
    return {"nodeSelector": {PRODUCT: product}} if product and len(plan.plans) > 1 else {}


def _leader_worker_set(plan: Plan, gpu: GpuType, best: Candidate) -> dict[str, Any]:
    """Return a group of nodes that start one engine.

    Source: LeaderWorkerSet v1, whose pods know LWS_LEADER_ADDRESS and LWS_WORKER_INDEX.
    """
    nodes = nodes_of(best)
    each = ceil_div(best.gpus, nodes)
    leader, worker = _node_commands(plan, best, nodes)
    pods = {
        role: _placed(plan, gpu)
        | _pod(
            {**_container(plan, best, ["/bin/sh", "-c"], [], {_resource(gpu): each}), "args": [script]},
            serving=role == "leader",
        )
        for role, script in (("leader", leader), ("worker", worker))
    }
    name = name_of(plan, gpu, best)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {"metadata": {"labels": {"app": name}}, "spec": pods["leader"]},
                "workerTemplate": {"spec": pods["worker"]},
            },
        },
    }


def _node_commands(plan: Plan, best: Candidate, nodes: int) -> tuple[str, str]:
    """Return the scripts of the first node and of the others, which start one engine together.

    Source: vLLM 0.13.0 to 0.32.0, entrypoints/cli/serve.py run_headless; before, ParallelConfig with Ray.
    """
    command = PLACED.sub("", shlex.join(in_container(best)[0]))
    if plan.engine.rules.release >= NNODES_SINCE:
        joined = f"{command} --nnodes {nodes} --master-addr {LEADER}"
        first = f"{joined} --node-rank 0"
        return _script(first), _script(f"{joined} --node-rank {RANK} --headless")
    replicas = best.flags.data_parallel_size
    if replicas % nodes == 0:
        local = replicas // nodes
        joined = f"{command} --data-parallel-size-local {local} --data-parallel-address {LEADER}"
        start = f'--data-parallel-start-rank "$((LWS_WORKER_INDEX * {local}))"'
        return _script(joined), _script(f"{joined} {start} --headless")
    head = f"ray start --head --port {RAY_PORT}"
    join = f"until ray start --block --address {LEADER}:{RAY_PORT}; do sleep 5; done"
    return f"{head} && {_script(f'{command} --distributed-executor-backend ray')}", join


def _script(command: str) -> str:
    return f"exec {_unexpanded(command)}"


def _container(
    plan: Plan, best: Candidate, command: list[str], arguments: list[str], gpus: dict[str, int]
) -> dict[str, Any]:
    key = {"name": "huggingface", "key": "token", "optional": True}
    return {
        "name": "vllm",
        "image": image(plan),
        "command": command,
        "args": [_unexpanded(word) for word in arguments],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}},
            *({"name": name, "value": _unexpanded(value)} for name, value in best.variables),
        ],
        "ports": [{"name": "http", "containerPort": port(best)}],
        "resources": {"limits": gpus},
        "volumeMounts": [
            {"name": "models", "mountPath": CACHE},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108 - where ranks share memory
        ],
    }


def _pod(container: dict[str, Any], *, serving: bool = True) -> dict[str, Any]:
    # The engine answers /health once the model is loaded, which can take an hour with the download.
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10}
    probed = {**container, "startupProbe": {**probe, "failureThreshold": 360}, "readinessProbe": probe}
    return {
        "containers": [probed if serving else container],
        "volumes": [
            {"name": "models", "persistentVolumeClaim": {"claimName": "huggingface"}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }


def _unexpanded(word: str) -> str:
    """Return an argument in which Kubernetes does not replace ``$(NAME)`` by a variable."""
    return word.replace("$(", "$$(")
