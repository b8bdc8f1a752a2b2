"""Articles, reviews, changes, comparisons and a model's own words: nobody met the failures in them.

Excerpts of public threads and pages, read as they came; the beginnings are shortened.
"""

import pytest

from service.startup_log.log import read_log
from service.startup_log.prose.kinds_of_texts import TextKind

MOST_ARE = """\
vLLM Won't Start? Every Fix for the Engine Init, CUDA, and OOM Errors (2026)
TL;DR: Most vLLM startup failures are one of three things: the engine reserves more KV-cache memory than \
your card has (No available \
memory for the cache blocks), the CUDA driver is older than the wheel was built for.
"""
TAMING = """\
Taming vLLM OOM: Real-World Causes and Proven Fixes for Production

This article examines why vLLM experiences out-of-memory errors in production.
"""
ONE_OF = """\
A vLLM OOM crash is one of the more expensive five-line stack traces in production ML. The model loaded, \
the first few requests \
worked, then the serving process terminated.
Almost every vLLM OOM has one of four causes, and they fix in a predictable order.
"""
YOU_LAUNCH = """\
The vLLM OOM Error You Are Seeing
You launch vLLM and it crashes during startup or shortly after with:
ValueError: The model's max seq len (32768) is larger than the maximum number of
tokens that can be stored in KV cache (2048). Try increasing `gpu_memory_utilization`
"""
COLLECTED = (
    "vLLM\u955c\u50cf\u90e8\u7f72\u5e38\u89c1\u9519\u8bef\u53ca\u89e3\u51b3\u65b9\u6848\u5927\u5168\n\n"
    "\u660e\u660e\u4e70\u4e86A100,\u7ed3\u679c\u8dd1\u4e2a7B\u6a21\u578b\u8fd8\u9891\u9891OOM?\n"
)
RUNBOOK = """\
Production Runbook: vLLM OOMKilled Recovery
When your inference pod dies mid-request with exit code 137. What to check, what to fix.
Symptom
Your vLLM pod restarted during normal traffic.
$ kubectl describe pod vllm-0 | grep -A3 "Last State"
Last State: Terminated
Reason: OOMKilled
Exit Code: 137
"""
WHEN_TO_USE = """\
Production Runbook: vLLM OOM Debugging

Your vLLM pod just crashed with OOMKilled. Here is how to find the cause and prevent it from happening again.

When to use this runbook:
  \u2022 vLLM pod crashes with CUDA out of memory (GPU memory)

torch.cuda.OutOfMemoryError: CUDA out of memory.
"""
MISTAKES = """\
One of the most common debugging mistakes in vLLM on Kubernetes is assuming every failure is of the GPU. \
A pod can fail because it exceeded its memory limit (OOMKilled) or because the runtime hit CUDA out-of-memory.
RuntimeError: CUDA out of memory. This is a VRAM issue on the GPU.
"""
REFERENCE = """\
The DGX Spark GB10 runs SM121. Several vLLM defaults do not apply, and some actively break things on SM121.
This is a reference for what we learned running vLLM 0.19.0 on two DGX Sparks.
CUTLASS FP4 is broken on SM121. It produces garbage output silently.
"""
PACKAGED = """\
Custom native vLLM for NVIDIA DGX Spark GB10
Stock vLLM does not work on the DGX Spark GB10 out of the box. This repository packages the 8 required fixes.
Operations that rely on these kernels crash at runtime.
"""
TIPS = """\
# Hangs downloading a model
This document outlines some troubleshooting strategies you can consider.
## Out of memory
"""
SPHINX = """\
Troubleshooting#

Hangs downloading a model#

If the model isn't already downloaded to disk, vLLM will download it from the internet.
"""
ISSUES = """\
Issues: vllm-project/vllm
[Bug]: Can't run vllm distributed inference with vLLM + Ray
#5094
opened May 29, 2024 by
[Bug]: Gemma model fails with GPTQ marlin
#5088
opened May 28, 2024 by
"""
LOW_SEVERITY = """\
Huge adapter ranks crash unclearly (Low Severity)
Rounding adapter rank up via `next(...)` has no fallback when the rank is above `512`. That raises a bare \
`StopIteration` instead of a clear validation error during server rank checks
"""
BADGE = """\
**<sub><sub>![P1 Badge](https://img.shields.io/badge/P1-orange?style=flat)</sub></sub>  Restore handling**

Calling `llm` methods without a guard means that an overlong request (one that exceeds `max_model_len`) will \
terminate that worker process, and leave the parent waiting on a dead pipe.

Useful? React with \U0001f44d / \U0001f44e.
"""
DIFF = """\
trl/scripts/vllm_serve.py
```diff
-                    logger.error(f"[Worker] Context length exceeded: {error_msg}")
+            result = method(*args, **kwargs)
```
This reintroduces a crash path: one overlong request terminates the worker process.
"""
FINDINGS = """\
macOS / CPU support: no Apple Silicon awareness, missing VLLM_CPU_KVCACHE_SPACE, crude CPU sizing
Three findings:
1. no Apple Silicon awareness: unified memory is not considered
2. the generated command never sets VLLM_CPU_KVCACHE_SPACE
"""
IMPROVES = """\
[V1] Improve TP>1 Error Handling + Stack Trace
SUMMARY:
- handle startup error (VLLM currently hangs if there is an error initializing the model with TP>1)
- improve the stack trace for runtime errors
"""
DOCUMENTS = """\
[Doc] Add max_lora_rank configuration guide
The `--max-lora-rank` parameter controls the maximum rank. Setting it unnecessarily high wastes memory \
and can cause \
performance issues.
"""
FIX_LOG = (
    "[Fix Log] Fix log of import error of local vllm server\n"
    "1. \u4ecerequirements\u91cc\u9762\u79fb\u9664aisuite\n"
    "2. \u5b9e\u9645\u4f7f\u7528\u65f6\u53d1\u73b0\u5b89\u88c5\u9519\u8bef\u7684transformers\u7248\u672c"
    "\u4e5f\u4f1a\u62a5\u9519\uff0c\u56e0\u6b64\u5206\u5f00\u5904\u7406\n"
)
OF_RELEASE = (
    "v0.4.2 \u66f4\u65b0\u5185\u5bb9\n- \u4fee\u590d\uff1a\u591a\u5361\u542f\u52a8\u65f6 NCCL "
    "\u8d85\u65f6\u7684\u95ee\u9898\n- \u4fee\u590d\uff1a\u663e\u5b58\u4e0d\u8db3\u65f6"
    "\u670d\u52a1\u5d29\u6e83\u7684\u95ee\u9898\n"
)
RESOLVES = """\
# deepseek_v32_encoding: Replace asserts with proper exceptions

Resolves: https://github.com/vllm-project/vllm/issues/32874

Replace validation asserts with ValueError to return 400 Bad Request instead of 500 Internal Server Error
"""
CONTAINS = """\
# Fix minor issues in local_server

## This PR contains:
* Fixes issues with VLLM local servers

### What is the current behavior?
Command line flags with no arguments were not parsed correctly and would cause errors, for example the \
`--enable-auto-tool-choice` flag.
"""
COMPARED = """\
SGLang Performance Compared with LMDeploy does not seem to have a significant improvement
I compared vllm-0.5.2, sglang 0.2.6 and lmdeploy 0.5.2.post1 on the same A100. vLLM lags behind.
"""
GENERATED = """\
2024-09-25 03:15:34,201 - Prompt 0: The serene landscape of the countryside was
2024-09-25 03:15:34,201 - Generated text:  severely disturbed at the end of the 19th century.
Traditional land management practices are often unsustainable due to population growth and soil degradation.
2024-09-25 03:15:34,201 - Tokens: 124
2024-09-25 03:15:34,201 - Prompt 1: Why do servers fail?
2024-09-25 03:15:34,201 - Generated text:  The engine crashed because it ran out of memory.
The GPU driver is too old, and the network hangs.
2024-09-25 03:15:34,201 - Tokens: 124
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # runaihome.com, besthub.dev, sector88.co, gigagpu.com, csdn.net
        *((text, TextKind.GUIDE) for text in (MOST_ARE, TAMING, ONE_OF, YOU_LAUNCH, COLLECTED)),
        # conselara.dev, GitHub: atcuality2021/vllm-gb10, vLLM 0.8.3 docs/usage/troubleshooting
        *((text, TextKind.GUIDE) for text in (REFERENCE, PACKAGED, TIPS)),
        (SPHINX, TextKind.DOCUMENTATION),
        (ISSUES, TextKind.LIST),
        # huggingface/trl#6007, #5165, jranaraki/vllm-fit#37
        *((text, TextKind.REVIEW) for text in (LOW_SEVERITY, BADGE, DIFF, FINDINGS)),
        # vllm-project/vllm#11721, #22782, OpenDCAI/DataFlow#331; vllm-project/vllm#32883, inspect_ai#1796
        *((text, TextKind.CHANGE) for text in (IMPROVES, DOCUMENTS, FIX_LOG, OF_RELEASE, RESOLVES, CONTAINS)),
        # sgl-project/sglang#834
        (COMPARED, TextKind.COMPARISON),
    ],
)
def test_a_text_that_nobody_met_a_failure_in_has_none(text: str, kind: TextKind) -> None:
    found = read_log(text)

    assert found.failure is None
    assert found.around.about is not None
    assert found.around.about.kind is kind


@pytest.mark.parametrize(
    "text",
    [
        # cognaiger9/llmperf
        GENERATED,
        # kubenatives.com, resiliotech.com
        RUNBOOK,
        WHEN_TO_USE,
        MISTAKES,
        # vllm-project/vllm#8176: instructions.
        "Run the script (do not forget: replace TOKEN by your huggingface token with Llama-3 access)\n",
        "When you run the benchmark, you may experience a memory leaking issue.\n",
        "What happens if a worker dies in a tensor parallel group?\n\nWe plan a deployment with 8 GPUs.\n",
        # vllm-project/vllm#46803: the title and the text are one question.
        "[Usage]: When does vLLM run out of memory?\n\nWhen does it go OOM, and how to prevent OOM?\n",
        "[Usage]: Does vLLM run out of memory when many long prompts arrive at the same time?\n",
    ],
)
def test_what_a_model_wrote_and_what_is_asked_in_general_is_no_failure(text: str) -> None:
    assert read_log(text).failure is None


@pytest.mark.parametrize(
    "text",
    [
        # Reports in like forms.
        "[Model] Support for Qwen3 is broken: vllm fails to load it\n",
        "Update to 0.11 breaks the start, vLLM crashes with an out of memory error\n",
        "Fix needed: vLLM runs out of memory at startup\n",
        "[Core] Use of FlashInfer leads to a crash of the engine\n",
        "vLLM vs SGLang: vLLM is much slower than SGLang on the same GPU\n",
        "Why does vLLM run out of memory with a 7B model on 24 GB?\n\nI get an OOM error at the start.\n",
        "DGX Spark\n\n## Findings\n1. the engine crashes at startup with an OOM error\n2. the worker hangs\n",
        "Prompt: 'Hello', Generated text: '!!!!!!!!!!'\nPrompt: 'Hi', Generated text: '!!!!!!!!!!'\n",
        # dusty-nv/jetson-containers#1457
        (
            "Fix flashinfer:0.4.0 build on SM 87\nThis fixes error `nvcc fatal   : Unsupported gpu "
            "architecture 'compute_110a'` when building `FLASHINFER_VERSION=\"0.4.0\"` on Jetson Orin\n"
        ),
        "All workers crash with OOMs at warmup\n",
        "Engine dies at the start\n\nThis document describes a crash of vLLM 0.19.0: CUDA out of memory.\n",
        "vLLM hangs at startup on 2 GPUs\n\nThis repository contains a reproducer.\n",
    ],
)
def test_report_in_a_like_form_is_one(text: str) -> None:
    assert read_log(text).failure is not None
