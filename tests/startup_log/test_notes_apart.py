"""Texts that are nothing but notes: rows, comments beside settings, and questions about an error."""

import pytest

from service.startup_log.log import read_log

# llm-works/llm-infer, etc/models.yaml
SETTING = """\
  bge-small-en:
    task: embed
    vllm:
      # Prefix caching with concurrent embedding requests causes KeyError crash in V1 engine
      enable_prefix_caching: false
"""
# bharaththiruveedula/benchmark-speculative-decoding, scripts/serve_vllm.sh
EXPORT = """\
export PATH="$ROOT/.venv/bin:$PATH"
# Thunder Compute: EngineCore fork can abort; keep this.
export VLLM_ENABLE_V1_MULTIPROCESSING="0"
"""
# The form of a course's list of what can go wrong: rows without a head.
ROWS = """\
| Out-of-memory (OOM) on model load | Almost impossible with 0.5B on 24 GB. Use a smaller model. |
| vLLM crashes on model load with architecture errors | The architecture isn't supported. |
"""
HEADED = """\
| Symptom | Fix |
|---|---|
| Clock drops after an hour | Wait, or use TGI |
| `70B doesn't fit at 32k context` | Drop to 16k |
"""
# vllm-project/vllm-ascend, docs/source/faqs.md
ASKED = """\
### 11. How to fix the error "InvalidVersion" when using vllm-ascend?

The problem is usually caused by the installation of a development version of the package.
"""
# A script that evaluates checkpoints
GLOB = """\
shopt -s nullglob
# Only complete checkpoints: a directory is created when a run starts but the weights
# appear only at save time, so an in-flight run would otherwise be globbed in and crash vLLM.
CKPTS=()
for d in models/pt_*; do
"""
NOTED = [
    (GLOB, "engine_died_serving", 3),
    (SETTING, "engine_fault", 4),
    (EXPORT, None, 2),
    (ROWS, "out_of_memory", 1),
    (HEADED, "out_of_memory", 4),
    (ASKED, None, 1),
]


@pytest.mark.parametrize(("text", "cause", "line"), NOTED)
def test_note_that_is_all_of_a_text_says_what_failed(text: str, cause: str | None, line: int) -> None:
    failure = read_log(text).failure

    assert failure is not None
    assert (failure.cause.name if failure.cause else None) == cause
    assert failure.line == line
    assert failure.paraphrased


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  vllm:\n    # Prevents OOM on cards of 24 GB\n    command: --max-num-seqs 8\n",
        "export A=1\n# Fail fast on an early crash instead of polling a dead server.\nexport B=2\n",
        "vllm:\n  # Leaves room, so that the engine does not run out of memory.\n  max_num_seqs: 8\n",
        "| Model | Context | Result |\n|---|---|---|\n| 7B | 32k | 41 tok/s |\n| 70B | 8k | 9 tok/s |\n",
        "| Setting | Meaning |\n|---|---|\n| fail_fast | Stop at the first error |\n| tries | Sent again |\n",
        "services:\n  vllm:\n    restart: on-failure  # restart when the server exits\n",
        "| Flag | Default |\n|---|---|\n| --max-model-len | from the model |\n| --seed | 0 |\n",
        "- **G4 has never run on this account.** If vLLM does not start there, the one change is the card.\n",
        "# Runbook of the demo\n\nWatch the log, and if the startup fails send it to all of us.\n",
        "How to install vLLM on two nodes with one GPU each?\n",
        "PHASE_B7_BASELINE_BLOCKED: waiting for the review of the report by two people.\n",
    ],
)
def test_what_a_setting_is_for_is_no_failure(text: str) -> None:
    assert read_log(text).failure is None


# vllm-project/vllm#13535: what Ray says below the frames of the worker's native code
RAYLET = """\
/root/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so(+0xe427c9) [0x7fd15b3007c9] c10d::x()
/lib/x86_64-linux-gnu/libc.so.6(+0x94ac3) [0x7fdb899c4ac3]
(raylet) A worker died or was killed while executing a task by an unexpected system error.
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # vllm-project/vllm#6823: what a person wrote below the title
        ("ps: it can be run on 2 gpus. but when i run nsys along with it, the bug occured.\n", None),
        # vllm-project/vllm-ascend#12891: the name of a model without a blank before and behind it
        ("[Bug]: 2\u53f0A2\u8dd1GLM-5.2-w8a8\u62a5\u9519,\u670d\u52a1\u65e0\u6cd5\u542f\u52a8\n", None),
        ("### vLLM crashes on start\n- See `docker logs vllm`\n", None),
        (
            "- vLLM refuses to start if KV doesn't fit max_model_len; trust its diagnostic.\n",
            "kv_cache_smaller_than_one_request",
        ),
        (RAYLET, "ray_actor_died"),
    ],
)
def test_what_people_state_is_quoted_with_no_cause_that_it_does_not_show(
    text: str, cause: str | None
) -> None:
    failure = read_log(text).failure

    assert failure is not None
    assert (failure.cause.name if failure.cause else None) == cause
