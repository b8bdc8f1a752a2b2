"""One word or one sentence, where the text names the error itself: rows of tables, advice, side remarks."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

RAISED = (
    "RuntimeError: The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 0"
)
HEADER = "Traceback (most recent call last):"

ROW = """\
| gpu-mem | seqs | KV GiB | 结果 |
| ---: | ---: | ---: | --- |
| 0.95 | 10 | 4.88 | warmup `compile_or_warm_up_model` CUDA OOM\uff08GPU0 剩 10 MiB\uff0c要 30 MiB\uff09 |
| **0.93** | **10** | **4.49** | 16 格全部完成 |
"""
"""zji996/vllm-qwen38-27b, 20260815-final-dspark-matrix.md, shortened."""
ROWS = """\
| error | what to do |
| --- | --- |
| CUDA out of memory | take a GPU with more memory |
| ValueError: No available memory for the cache blocks | raise --gpu-memory-utilization |
"""
HANGS = """\
The server hangs at its start.

| config | result |
| --- | --- |
| TP=1, 0.90 | `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.2 GiB` |
| TP=2, 0.90 | ok |
"""
ADVICE = (
    "> 若启动时报 `ModuleNotFoundError: No module named 'flash_attn.ops'`"
    "\uff0c通常是环境里装了 `flash-attn-4`\uff08会留下一个空的包\uff09。"
)
"""File 54603410239 of the index that was searched, shortened."""
CHOICE = """\
Newcomers who pass `vllm serve <model>` to this image hit a baffling argparse error:
```
vllm: error: argument {chat,complete,bench,collect-env,run-batch,serve}: invalid choice: 'Qwen/...'
```
"""
"""File 67112001435 of the index that was searched, shortened."""
REMARK = """\
  DIALS   --gpu-memory-utilization 0.76 --max-model-len 98304   (the recipe
          defaults 0.8/500K put a front-door host at ~113 GB used — OVER the 115 ceiling; Node A FROZE there.
          NOT 0.75: the 96K KV requirement has a ~6.9 GiB floor that barely moves with max-model-len,
          and 0.75's available KV wobbles 6.83\u20136.97 GiB run-to-run → intermittent startup ValueError)
"""
"""guardkit/dgx-spark, RUNBOOK-two-spark-bring-up.md, shortened."""
STEP = "(Worker_TP0_EP0 pid=7) ERROR 04-23 21:17:35 [multiproc_executor.py:949]"
BALANCING = f"""\
[Bug]: the server fails with --enable-eplb

{STEP}   File "/x/vllm/v1/worker/gpu_model_runner.py", line 1, in eplb_step
{STEP}     assert is_mixture_of_experts(model)
{STEP} AssertionError
"""
"""vllm-project/vllm#40740, shortened."""
ENCODER = f"""\
ERROR 06-18 09:30:36 [core.py:1231]   File "/x/vllm/v1/worker/gpu_worker.py", line 868, in execute_model
ERROR 06-18 09:30:36 [core.py:1231]     output = self.model_runner.execute_model(
ERROR 06-18 09:30:36 [core.py:1231]   File "/x/vllm/v1/worker/encoder_cudagraph.py", line 1, in _copy_padded
ERROR 06-18 09:30:36 [core.py:1231]     dst[: src.shape[0]].copy_(src)
ERROR 06-18 09:30:36 [core.py:1231] {RAISED}
"""
"""File 55335108421 of the index that was searched, shortened."""
LOADED = f"""\
{HEADER}
  File "/x/vllm/v1/worker/gpu_worker.py", line 300, in load_model
    self.model_runner.load_model()
  File "/x/vllm/model_executor/model_loader/weight_utils.py", line 1100, in default_weight_loader
    param.data.copy_(loaded_weight)
{RAISED}
"""
TWO = """\
We ran the image and got `RuntimeError: CUDA unknown error` at `torch._C._cuda_init()` on the head.

A test on the other node was then **OOM-killed (exit 137)** during the loading of the weights.
"""
"""tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark#6, shortened."""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (ROW, "out_of_memory"),
        (ROWS, "no_memory_for_cache_blocks"),
        (HANGS, "out_of_memory"),
        (
            "It hangs at the start.\nIf you see `RuntimeError: CUDA out of memory`, lower it.\n",
            "worker_hangs",
        ),
        (ADVICE, "build_does_not_match"),
        ("> 若启动日志出现 `CUDA out of memory`, 请换卡。\n", None),
        (CHOICE, "unknown_argument"),
        (REMARK, "kv_cache_smaller_than_one_request"),
        (BALANCING, "expert_balancing_not_supported"),
        (ENCODER, "tensors_do_not_fit"),
        (LOADED, "weights_do_not_fit_the_class"),
        (TWO, "gpu_not_ready"),
        ("The liveness probe restarts the pod before it is ready.\n", "probe_ended_it"),
        ("PROBE: the server does not answer, error 17\n", None),
    ],
)
def test_what_the_text_says_comes_before_a_word_of_it(text: str, cause: str | None) -> None:
    failure = read_log(text).failure

    assert (None if failure is None or failure.cause is None else failure.cause.name) == cause


def test_a_check_that_refuses_a_start_is_no_hang_of_another_sentence() -> None:
    failure = read_log(REMARK).failure

    assert failure is not None
    assert not failure.hangs


def test_a_step_that_a_row_names_says_what_helps() -> None:
    diagnosis = diagnose(read_log(ROW), None)

    assert diagnosis is not None
    # The cache is there in the warm-up, so that less of it leaves room.
    assert "Lower --gpu-memory-utilization" in diagnosis.remedy
