"""What texts are that report no failure, and what running engines do otherwise: titles of public threads."""

import pytest

from service.application.text.explanation import render_explanation
from service.application.text.headline import headline
from service.explanation.diagnosis import diagnose
from service.explanation.explain import explain
from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # vllm-project/vllm#20256, #6975, #550, kserve/kserve#5361, QwenLM/Qwen#1070, vllm-project/vllm#15960
        ("# [Feature]: Limit total GPU memory\n", "asks for a feature"),
        ("# [Usage]: how to abort request and stop inference?\n", "asks a question"),
        (
            "# GPU consumption\n\nGPU usage of a 13b llama is about 73G.\n\nIs this ususal?\n",
            "asks a question",
        ),
        ("# Upgrade vLLM to 0.19\n\n/kind bug\n", "asks for a feature"),
        ("# vLLM\u662f\u4e0d\u662f\u652f\u6301\u91cf\u5316\u6a21\u578b\u4e86\uff1f\n", "asks a question"),
        (
            "# [P/D][V1] KV Connector API V1\n\nThis PR opens the KV connector API in v1.\n",
            "describes a change of code",
        ),
        # rh-aiservices-bu/rhai-agentic-demo#9
        (
            "# Tolerations of the service\n\nThis change removes models that get stuck in Pending state.\n",
            "describes a change of code",
        ),
        # vllm-project/vllm#47867, vLLM's documentation of how a class is found, and reviews of changes:
        # vllm-project/vllm#2374, RBLN-SW/vllm-rbln#270
        (
            "Bump Transformers version\n\n- `KeyError: 'x'` - renamed. This PR adds both.\n",
            "describes a change",
        ),
        (
            "Model Resolution\u00b6\nLoads models by finding what is registered.\n",
            "is about documentation",
        ),
        (
            "Update an error\n\nvllm/worker/worker.py:235\n```diff\n+ use\n```\nIt fails without guidance.\n",
            "reviews code",
        ),
        # A Chinese article of June 2026: seven causes of death of EngineDeadError
        (
            "EngineDeadError \u4e03\u79cd\u6b7b\u56e0\u8bca\u65ad\n\n\u6b7b\u56e0 1: CUDA Out of Memory\n",
            "tells how to mend failures in general",
        ),
        # vllm-project/vllm#13693
        (
            "# [BugFix] Illegal memory access for MoE\n\nvLLM crashed beyond 32K. This PR fixes the bug.\n",
            "describes a change of code",
        ),
        # vllm-project/vllm, a change for XPU
        (
            "# [XPU]Bug fix for some errors\n\nOn TPxDP it meets errors, this pr is to fix this issue.\n",
            "describes a change of code",
        ),
        # QwenLM/Qwen3-VL#1507, a change whose title stands in bold letters
        (
            "**Fix: Resolve OOM Errors for vLLM**\n\nResolves errors.\n\n**Changes:**\n\n* max_num_seqs=8\n",
            "describes a change of code",
        ),
        # xorbitsai/inference#4573, and the README of a repository of repairs
        ("BUG: vllm reranker score error\n\nfix: #4571\n", "describes a change of code"),
        (
            "Stock vLLM does not work on the GB10.\n\nThis repository packages the 8 required fixes.\n",
            "tells how to mend failures in general",
        ),
        # kserve/kserve#5062, llm-d/llm-d-benchmark#1734, vllm-project/tpu-inference#2827, shortened
        (
            "Add startupProbe\n\n/kind feature\n\nLarge models get killed by the liveness probe.\n",
            "asks for a feature",
        ),
        (
            "Raise probe tolerance\n\nIt was marked NotReady.\n\nSet failureThreshold 10 on both probes.\n",
            "describes a change of code",
        ),
        (
            "Fixes for TPU device topology\n\n# Description\n\nThe server crashes on multi-host TPU v7.\n",
            "describes a change of code",
        ),
        # rossumai/nvgpu#37 and NVIDIA-AI-IOT/jetson-ai-lab#292, shortened
        (
            "fixed GPU memory info bugs\n\nnvidia-smi cannot give it, it will fail. This PR added support.\n",
            "describes a change of code",
        ),
        (
            "Add a value to get around an error\n\n> context length is 1\n\nVerified with gemma-3-4b-it\n",
            "describes a change of code",
        ),
        # A sentence that begins like a wish can be a report: what it is is said by its form alone.
        ("Upgrade to 0.11 makes our requests take twice the time they took\n", "By its form"),
        # verl-project/verl#1133
        ("# vllm vs sglang\n\nSo they are the same, but one has much lower OOM risk?\n", "compares engines"),
        ("# [RFC]: KV cache offloading\n\n## Motivation\n\nGPU memory is small.\n", "proposes"),
    ],
)
def test_a_text_without_a_failure_is_said_to_be_what_it_is(text: str, kind: str) -> None:
    found = explain(read_log(text), None)

    assert found.ending is None
    assert kind in headline(found)
    assert "no failure was recognized" in headline(found)


@pytest.mark.parametrize(
    "text",
    [
        "# [Bug]: The server crashes\n\nWhat can I do?\n",
        "# Support is broken: fails to start\n\nHow to fix?\n",
    ],
)
def test_a_report_that_asks_is_a_failure_all_the_same(text: str) -> None:
    assert explain(read_log(text), None).ending is not None


def test_a_title_above_the_log_of_a_server_that_came_up_names_its_failure() -> None:
    """The form of modelscope/ms-swift#7879; without a title nothing failed."""
    came_up = "INFO:     Application startup complete.\n"
    found = explain(read_log(f"GRPO\u7684vllm-server\u51fa\u73b0NCCL error\n\n{came_up}"), None)

    assert found.ending is not None
    assert found.ending.cause == "nccl"
    assert explain(read_log(came_up), None).ending is None


def test_a_speed_that_is_well_is_no_complaint_of_a_report_of_another_failure() -> None:
    """The form of weicj/vLLM-2080Ti-Definitive#58."""
    title = "# [Bug] TP1 worker silently terminated when loading multimodal profile"
    works = "Text-only profile (mtp3-text-only) works perfectly at 76 tok/s."
    found = explain(read_log(f"{title}\n\n{works}\n"), None)

    assert found.ending is not None
    assert found.ending.line == 1
    assert found.ending.cause != "slower_than_expected"


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        # QwenLM/Qwen3#1334, vllm-project/vllm#27572, #9453, #21260, #8178, #40994, LMCache/LMCache#419
        (
            "[Bug]: vllm\u52a0\u8f7d32B\u6a21\u578b\uff0c\u8f6f\u52a0\u8f7dthink\u4e0d\u8d77\u4f5c\u7528",
            "thinking_not_switched",
        ),
        ("[Bug]: chat/completions stream intermittently returns null as finish_reason", "answer_field_wrong"),
        ("[Bug]: Logprob values are affected by sampling parameters", "logprobs_of_other_logits"),
        ("[Bug]: Prometheus DP metrics are incorrect", "metrics_not_as_expected"),
        ("[Bug]: In v0.6.0 and above, some of monitoring metrics are not correct", "metrics_not_as_expected"),
        ("[Bug]: vllm does not expose /v1/audio/transcriptions for a model", "route_not_of_this_task"),
        ("LMCache not offloading to CPU", "cache_not_offloaded"),
        # vllm-project/vllm-ascend#7712, vllm-project/vllm#15597, #13260
        ("[Bug]: \u6a21\u578b\u5347\u7ea7\u540e\u7cbe\u5ea6\u51fa\u73b0\u95ee\u9898", "wrong_output"),
        (
            "[Bug]: \u5b58\u5728\u5185\u5b58(\u4e0d\u662fGPU\u663e\u5b58)\u6cc4\u6f0f\u95ee\u9898",
            "memory_grows",
        ),
        ("[Bug]: Guided generation throws 500 error or endless generation in vllm serve", "grammar_failed"),
        # vllm-project/vllmand its comments
        (
            '[Bug]: content is null when use "chat_template_kwargs": {"enable_thinking": false}',
            "reasoning_not_separated",
        ),
        (
            "[Bug]: If I include the stop parameter, the output of reasoning_content gets truncated",
            "reasoning_not_separated",
        ),
        ("[Bug]: vllm serve kv cache does not seem to persist properly across requests", "cache_not_reused"),
        ("Slow performance with the latest outlines", "slower_than_expected"),
        ("[CI failure]: nightly Omni model test fails due to missing keywords", "test_not_passed"),
        ("[CI Failure]: test of the sampler hangs", "worker_hangs"),
        ("[Installation]: I want to install it on windows (wsl2) but the wsl crash.", "compiler_killed"),
        # What only looks so.
        ("[Bug]: The engine crashes when /metrics is asked for missing metrics", "engine_died_serving"),
        ("[Bug]: wrong accuracy metrics in lm-eval", "wrong_output"),
    ],
)
def test_what_a_running_engine_does_otherwise_has_a_name(title: str, cause: str) -> None:
    found = diagnose(read_log(f"{title}\n"), None)

    assert found is not None
    assert found.cause == cause


def test_the_clauses_of_a_line_in_chinese_are_read_together() -> None:
    """agentscope-ai/agentscope#1359: one clause names the parser, the next one what it returns."""
    found = diagnose(
        read_log(
            "[Bug]:qwen3 vllm\u89e3\u6790bug\n\n\u4f7f\u7528reasoning-parser=deepseek_r1\u683c\u5f0f\uff0c"
            "\u4f1a\u8fd4\u56de\u89e3\u6790\u5f02\u5e38\u3002\n"
        ),
        None,
    )

    assert found is not None
    assert found.cause == "reasoning_not_separated"


def test_a_probe_of_a_path_that_is_not_there_is_not_early() -> None:
    """llm-d/llm-d-inference-sim#45."""
    found = diagnose(
        read_log(
            "Warning  Unhealthy  kubelet  Liveness probe failed: HTTP probe failed with statuscode: 404\n"
        ),
        None,
    )

    assert found is not None
    assert found.cause == "probe_ended_it"
    assert "/health" in found.remedy
    assert "another path" in found.means


def test_a_cut_text_of_which_only_the_place_is_known_is_said_to_end_before_the_error() -> None:
    text = 'Traceback (most recent call last):\n  File "/v/triton/runtime/jit.py", line 167, in <lambda>\n'

    shown = " ".join(render_explanation(explain(read_log(text), None)).split())

    assert "The text ends before the error. What mostly fails at this place" in shown
