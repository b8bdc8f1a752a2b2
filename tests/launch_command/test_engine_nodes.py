"""The commands of one engine's nodes are one start, and other commands are not."""

import pytest

from service.launch_command.read_commands import read_commands

HEAD = "vllm serve org/m --data-parallel-size 4"
ADDRESS = "--data-parallel-address 10.99.48.128"
SERVED_AND_HEADLESS = f"""
{HEAD} --data-parallel-size-local 2 {ADDRESS}
{HEAD} --headless --data-parallel-size-local 2 --data-parallel-start-rank 2 {ADDRESS}
"""
ALL_RANKS_ELSEWHERE = f"""
{HEAD} --data-parallel-size-local 0 {ADDRESS}
{HEAD} --headless --data-parallel-size-local 4 {ADDRESS}
"""
"""These two are of the form in vLLM's docs/serving/data_parallel_deployment.md."""
LWS = """
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
        - image: vllm/vllm-openai:v0.33.0
          command: [/bin/sh, -c]
          args: ["exec vllm serve org/m --tensor-parallel-size 16 --nnodes 2 --node-rank 0"]
          resources: {limits: {nvidia.com/gpu: 8}}
    workerTemplate:
      spec:
        containers:
        - image: vllm/vllm-openai:v0.33.0
          command: [/bin/sh, -c]
          args:
          - >-
            exec vllm serve org/m --tensor-parallel-size 16 --nnodes 2
            --node-rank "$LWS_WORKER_INDEX" --headless
          resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.mark.parametrize(
    "text",
    [
        LWS,
        SERVED_AND_HEADLESS,
        ALL_RANKS_ELSEWHERE,
        # External load balancing: each rank has its own port.
        "".join(
            f"CUDA_VISIBLE_DEVICES={rank} {HEAD} --data-parallel-rank {rank} --port {8000 + rank} &\n"
            for rank in range(4)
        ),
        f"{HEAD} --nnodes 2 --node-rank 1 --headless\n{HEAD} --nnodes 2 --node-rank 0 --port 8001",
    ],
)
def test_nodes_of_one_engine_are_one_start(text: str) -> None:
    (start,) = read_commands(text)
    headless = start.launch.flag("headless")
    assert headless is None
    assert sum("planned as one start" in note for note in start.notes) == 1


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve org/m --port 8000\nvllm serve org/m --port 8001",
        "vllm serve org/m\nvllm serve org/m",
        f"{HEAD} --nnodes 2 --node-rank 0\nvllm serve org/n --nnodes 2 --node-rank 1 --headless",
        f"{HEAD} --node-rank 0\n{HEAD} --node-rank 1 --headless --max-model-len 4096",
        # The same node twice is two engines.
        f"{HEAD} --nnodes 2 --node-rank 1 --headless\n{HEAD} --nnodes 2 --node-rank 1 --headless",
    ],
)
def test_other_commands_stay_apart(text: str) -> None:
    assert [each.launch.line for each in read_commands(text)] == [1, 2]


def test_gpus_that_ranks_name_apart_are_those_of_one_engine() -> None:
    text = "\n".join(f"CUDA_VISIBLE_DEVICES={rank} {HEAD} --data-parallel-rank {rank} &" for rank in range(4))
    (start,) = read_commands(text)
    assert start.launch.placement.devices == ("0", "1", "2", "3")
    assert start.doubts() == ()


def test_a_group_of_pods_has_the_gpus_of_all_its_pods() -> None:
    (start,) = read_commands(LWS)
    assert (start.launch.placement.gpus_per_node, start.launch.placement.nodes) == (8, 2)
    assert start.doubts() == ()
