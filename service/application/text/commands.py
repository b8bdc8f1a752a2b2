"""Writes the commands that start what a plan recommends, for a shell, Docker or Kubernetes."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from packaging.version import Version

from service.advisor.plan_types import Candidate, GpuPlan, Plan
from service.advisor.verdict import Verdict
from service.application.schemas.plan_format import CommandFormat
from service.application.text.words import printable, sizes, verdict_words
from service.bundled_toml import read_toml
from service.hub.model_ids import is_path
from service.units import GIB, ceil_div

IMAGE: Final = "vllm/vllm-openai"
"""The engine's own image, tagged by release."""
CACHE: Final = "/root/.cache/huggingface"
"""Folder of the image for models."""
PORT: Final = 8000
SIX_DIGITS: Final = 6
GPUS_OF_A_NODE: Final = 8
SPARE_DISK: Final = 1.2
"""Disk for a checkpoint as a multiple of its bytes: a download needs room for parts of files."""
LONGEST_NAME: Final = 52
"""Characters of a name in Kubernetes, which appends some to those of pods (63 at most)."""


LEADER: Final = '"$LWS_LEADER_ADDRESS"'
RANK: Final = '"$LWS_WORKER_INDEX"'
"""What a LeaderWorkerSet tells its pods."""
RAY_PORT: Final = 6379


def _since() -> Version:
    return Version(read_toml("service.application.text", "multi_node.toml")["nnodes"]["since"])


NNODES_SINCE: Final = _since()


@dataclass(frozen=True, slots=True)
class Written:
    """Commands, and what a person should know about them. A shell never runs the comments."""

    commands: str
    """Empty where nothing can be run."""
    comments: str
    """Lines that start with ``#``; empty where there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Block:
    """The command for one GPU type, with its comments."""

    comments: tuple[str, ...]
    command: str
    """Empty where there is none."""


def render_commands(plan: Plan) -> Written:
    """Write the recommended command for each GPU type, each on one line that a shell can run."""
    return _written(plan, lambda best: _line(best.command, *_several_nodes(best), *_left_out(best)))


def render_docker(plan: Plan) -> Written:
    """Write the recommended command for each GPU type as one that runs the engine's own image."""
    return _written(plan, lambda best: _docker(plan, best))


def render_kubernetes(plan: Plan) -> Written:
    """Write a Deployment for each GPU type, or a LeaderWorkerSet where the engine needs several nodes."""
    return _written(plan, lambda best: _kubernetes(plan, best), separator="---\n")


COMMANDS: Final[Mapping[CommandFormat, Callable[[Plan], Written]]] = {
    "command": render_commands,
    "docker": render_docker,
    "kubernetes": render_kubernetes,
}
"""Writers of commands by format."""


def _written(plan: Plan, write: Callable[[Candidate], Block], separator: str = "") -> Written:
    single = len(plan.plans) == 1
    blocks = [_block(gpu, write, bare=single) for gpu in plan.plans]
    commands = [each.command for each in blocks if each.command]
    return Written(
        commands=separator.join(f"{each}\n" for each in commands),
        comments="".join(map(_commented, blocks)),
    )


def _commented(block: Block) -> str:
    return "".join(f"# {' '.join(printable(each).split())}\n" for each in block.comments)


def _block(plan: GpuPlan, write: Callable[[Candidate], Block], *, bare: bool) -> Block:
    best = plan.recommended
    if best is None:
        what = "nothing starts" if plan.verdict is Verdict.REFUSED else "nothing is recommended"
        return Block((f"{plan.gpu.id}: {what}: {plan.reason}",), "")
    block = write(best)
    doubts = () if best.verdict is not Verdict.UNCERTAIN else best.doubts or (plan.reason,)
    comments = (*(f"uncertain: {doubt}" for doubt in doubts), *block.comments)
    if bare:
        return Block(comments, block.command)
    title = f"{best.gpus} x {plan.gpu.id}, {best.kv_cache_dtype}: {verdict_words(best.verdict)}"
    return Block((title, *comments), block.command)


def for_shell(command: str) -> str:
    """Return a command on one line, for a shell; control characters become spaces.

    A bare ``$(...)`` splits the line at spaces and does not obey quotes: a name could become a flag. So the
    first word of a line with quotes is quoted too: a bare ``$(...)`` finds no such program and runs nothing,
    while ``eval "$(...)"`` and a shell into which the line is pasted run the command.
    """
    parts = [" ".join(printable(word).splitlines()) for word in shlex.split(command)]
    before = list(takewhile(VARIABLE.match, parts))
    program, *words = parts[len(before) :]
    line = shlex.join((program, *words))
    if before:
        # A bare $(...) takes the variable for a program and runs nothing.
        assigned = (
            f"{name}={shlex.quote(value)}" for name, _, value in (each.partition("=") for each in before)
        )
        return f"{' '.join(assigned)} {line}"
    return line if line.split() == [program, *words] else f'"{program}" {shlex.join(words)}'


PLACED: Final = re.compile(
    r" --(?:data-parallel-(?:address|rpc-port|start-rank|size-local)"
    r"|nnodes|node-rank|master-addr|master-port)[ =]\S+"
)
"""Options that say on which of which hosts a process runs: a manifest of several nodes sets its own."""
MOUNT_IT: Final = "mount the folder, and give its path there"
LOOPBACK: Final = re.compile(r" --host[ =](?:127\.\d+\.\d+\.\d+|localhost|::1)(?= |$)")
"""An option that makes the engine listen for its own host alone."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


QUOTED: Final = 'holds quotes or variables: paste it, or run it by eval "$(...)"'


def _line(command: str, *comments: str) -> Block:
    line = for_shell(command)
    quoted = line.startswith('"') or VARIABLE.match(line) is not None
    return Block((*comments, *((QUOTED,) if quoted else ())), line)


def _patched(plan: Plan) -> tuple[str, ...]:
    patches = ", ".join(plan.engine.patches)
    return (f"planned with {patches}, which no image holds",) if patches else ()


def _image(plan: Plan) -> str:
    return f"{IMAGE}:v{plan.engine.version}"


def _nodes(best: Candidate) -> int:
    return ceil_div(best.gpus, GPUS_OF_A_NODE)


def _nodes_words(best: Candidate) -> str:
    return f"{best.gpus} GPUs ({sizes(best)}) are {_nodes(best)} nodes of {GPUS_OF_A_NODE}"


def _several_nodes(best: Candidate) -> tuple[str, ...]:
    if _nodes(best) == 1:
        return ()
    what = "this line alone does not start them; --format kubernetes writes what each node runs"
    return (f"{_nodes_words(best)}: {what}",)


def _docker(plan: Plan, best: Candidate) -> Block:
    if _nodes(best) > 1:
        what = "one docker command cannot start them; --format kubernetes writes a LeaderWorkerSet"
        return Block((f"{_nodes_words(best)}: {what}", *_patched(plan)), "")
    # The image's own entrypoint changed over time, so it is always given; ranks share the host's memory.
    (program, *arguments), comments = _in_container(best)
    port = _port(best)
    options = ["--rm", "--gpus", str(best.gpus), "--ipc", "host", "-p", f"{port}:{port}"]
    variables = (word for name, value in best.variables for word in ("-e", f"{name}={value}"))
    folders = _folders(best)
    there = (each for each in folders if each.startswith("/"))
    mounts = [word for each in there for word in ("-v", f"{each}:{each}:ro")]
    words = (
        *("docker", "run", *options, "-e", "HF_TOKEN", *variables, "-v", f"huggingface:{CACHE}", *mounts),
        *("--entrypoint", program, _image(plan), *arguments),
    )
    absent = (f"{each} is not in the container: {MOUNT_IT}" for each in folders if not each.startswith("/"))
    return _line(shlex.join(words), *_patched(plan), *comments, *absent, *_left_out(best))


def _folders(best: Candidate) -> tuple[str, ...]:
    """Return the folders that the command reads: of the model, and of the draft with which it speculates."""
    speculative = best.flags.speculative_config
    named = (best.model.id, None if speculative is None else speculative.model)
    return tuple(each for each in named if each is not None and is_path(each))


def _in_container(best: Candidate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the command in a container, and what they leave out.

    An address of the container's own loopback would keep its port from everybody else.
    """
    words, options = best.command_words, shlex.join(best.command_words)
    kept = LOOPBACK.sub("", options)
    if kept == options:
        return tuple(words), ()
    address = LOOPBACK.findall(options)[-1].strip()
    return tuple(shlex.split(kept)), (f"left out {address}: only the container itself could reach it",)


def _port(best: Candidate) -> int:
    """Return the port on which the command listens."""
    words = best.carried.words
    after = words[words.index("--port") + 1 :][:1] if "--port" in words else ()
    return int(after[0]) if after and after[0].isdecimal() and len(after[0]) < SIX_DIGITS else PORT


def _left_out(best: Candidate) -> tuple[str, ...]:
    """Say what the caller's command holds that is not repeated."""
    names = best.carried.left_out
    return (f"left out, add it: {', '.join(names)} (secret, or not given by the text)",) if names else ()


def _kubernetes(plan: Plan, best: Candidate) -> Block:
    several = _nodes(best) > 1
    document = _leader_worker_set(plan, best) if several else _deployment(plan, best)
    shared = " (ReadWriteMany)" if several else ""
    needs = f"needs a PersistentVolumeClaim named huggingface{_room(best)}{shared}"
    secret = "for a gated model also a Secret named huggingface with the key token"  # noqa: S105 - a name
    absent = (f"{each} is not in the container: {MOUNT_IT}" for each in _folders(best))
    placed = PLACED.findall(shlex.join(best.command_words)) if several else ()
    replaced = (f"left out{''.join(placed)}: the manifest sets its own hosts",) if placed else ()
    container = _in_container(best)[1]
    comments = (*_patched(plan), f"{needs}; {secret}", *container, *absent, *replaced, *_left_out(best))
    return Block(comments, _as_yaml(document))


def _as_yaml(document: Mapping[str, Any]) -> str:
    """Return a manifest with equal parts in full: kubectl reads anchors, but people do not."""
    import yaml  # noqa: PLC0415 - only manifests need it

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of the base class
            return True

    text: str = yaml.dump(document, Dumper=Plain, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text.rstrip("\n")


def _room(best: Candidate) -> str:
    """Return how much disk the model needs, if the bytes of its checkpoint are known."""
    size = best.model.checkpoint_bytes
    return "" if size is None else f" with {ceil_div(int(size * SPARE_DISK), GIB)} GiB or more"


def _name(best: Candidate) -> str:
    """Return the model's name as Kubernetes allows it: lower case, digits and hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", best.model.id.rpartition("/")[2].lower()).strip("-")
    return f"vllm-{words}"[:LONGEST_NAME].strip("-")


def _deployment(plan: Plan, best: Candidate) -> dict[str, Any]:
    program, subcommand, *arguments = _in_container(best)[0]
    serving = _container(plan, best, [program, subcommand], arguments, best.gpus)
    name = _name(best)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": _pod(serving)},
        },
    }


def _leader_worker_set(plan: Plan, best: Candidate) -> dict[str, Any]:
    """Return a group of nodes that start one engine.

    Source: LeaderWorkerSet v1, whose pods know LWS_LEADER_ADDRESS and LWS_WORKER_INDEX.
    """
    nodes = _nodes(best)
    each = ceil_div(best.gpus, nodes)
    leader, worker = _node_commands(plan, best, nodes)
    pods = {
        role: _pod(
            {**_container(plan, best, ["/bin/sh", "-c"], [], each), "args": [script]},
            serving=role == "leader",
        )
        for role, script in (("leader", leader), ("worker", worker))
    }
    name = _name(best)
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
    command = PLACED.sub("", shlex.join(_in_container(best)[0]))
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
    plan: Plan, best: Candidate, command: list[str], arguments: list[str], gpus: int
) -> dict[str, Any]:
    key = {"name": "huggingface", "key": "token", "optional": True}
    return {
        "name": "vllm",
        "image": _image(plan),
        "command": command,
        "args": [_unexpanded(word) for word in arguments],
        "env": [
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}},
            *({"name": name, "value": _unexpanded(value)} for name, value in best.variables),
        ],
        "ports": [{"name": "http", "containerPort": _port(best)}],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
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
