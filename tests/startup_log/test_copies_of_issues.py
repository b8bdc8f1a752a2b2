"""Issues as copies of them begin: repository, number, state, labels, the title, who wrote a comment."""

import pytest

from service.startup_log.log import read_log

HEAD = """\
ncsoft/offsetbias \u00b7 issue #2 \u00b7 closed \u00b7 Python
labels: question
# {title}

[turn 0 by someone, continued]
"""
CALLS = """```
File ~/lib/python3.11/site-packages/vllm/worker/worker.py:139, in Worker.load_model(self)
    138 def load_model(self):
--> 139     self.model_runner.load_model()
"""


@pytest.mark.parametrize(
    ("title", "below", "cause"),
    [
        # ncsoft/offsetbias#2: the traceback is cut off above the exception that the title has.
        (
            "ValueError: Model architectures ['LlamaForSequenceClassification'] are not supported for now.",
            CALLS,
            "unknown_architecture",
        ),
        # vllm-project/production-stack#454: the list of pods only says that the container ended again.
        (
            'bug: Issue while running example ("vllm": executable file not found in $PATH: unknown)',
            "vllm-mistral-67dd8b6d79-kk7fs   0/1     CrashLoopBackOff   4 (73s ago)   2m49s\n",
            "program_not_found",
        ),
    ],
)
def test_the_title_is_found_below_the_head(title: str, below: str, cause: str) -> None:
    text = HEAD.format(title=title) + below
    copied, alone = read_log(text).failure, read_log(f"# {title}\n\n{below}").failure

    assert copied is not None
    assert alone is not None
    assert copied.cause is not None
    assert (copied.cause, copied.message) == (alone.cause, alone.message)
    assert copied.cause.name == cause
    assert text.splitlines()[copied.line - 1] == f"# {title}"


def test_the_same_words_below_other_text_stay() -> None:
    log = read_log("Model architectures ['A'] are not supported for now.\nlabels: question\n")

    assert log.failure is not None
    assert log.failure.line == 1


@pytest.mark.parametrize(
    "head",
    [
        # vllm-project/vllm-ascend#2169, Tongyi-MAI/MAI-UI#45, ai-dynamo/dynamo#4299
        "vllm-project/vllm-ascend \u00b7 issue #2169 \u00b7 open \u00b7 C++\nlabels: bug\n",
        "Tongyi-MAI/MAI-UI \u00b7 issue #45 \u00b7 open \u00b7 Jupyter Notebook\n",
        "ai-dynamo/dynamo \u00b7 issue #4299 \u00b7 open \u00b7 Rust\nlabels: backend::trtllm, 1.4.0\n",
    ],
)
def test_a_head_can_name_any_language_and_any_label(head: str) -> None:
    title = "# [Bug]: NotImplementedError: VLLM_USE_V1=1 is not supported with ['BertModel']."
    calls = 'Traceback (most recent call last):\n  File "/usr/lib/contextlib.py", line 199, in __aenter__\n'

    failure = read_log(f"{head}{title}\n\n[turn 0 by someone, continued]\n{calls}").failure

    assert failure is not None
    assert failure.type == "NotImplementedError"


DUMP = (
    "(EngineCore_0 pid=17714) ERROR 08-22 15:18:41 [dump_input.py:69] Dumping input data for V1 LLM engine "
    "(v0.10.1.1) with config: model='m',\n"
)
CAME_UP = "(APIServer pid=17620) INFO:     Application startup complete.\n"


def test_a_log_that_ends_in_the_dump_of_a_step_has_the_error_of_the_title() -> None:
    """gpustack/gpustack#2793; vLLM 0.10.1.1, logging_utils/dump_input.py."""
    head = "gpustack/gpustack \u00b7 issue #2793 \u00b7 closed \u00b7 Python\nlabels: vLLM\n"
    titled = read_log(f"{head}# Qwen3-Embedding model crashed: KeyError: None\n\n{CAME_UP}{DUMP}").failure
    untitled = read_log(f"{CAME_UP}{DUMP}").failure

    assert titled is not None
    assert (titled.type, titled.message, titled.serving) == ("KeyError", "None", True)
    assert untitled is not None
    assert untitled.cause is not None
    assert untitled.cause.name == "engine_died_serving"


def test_an_assertion_beside_the_calls_of_another_program_is_no_fault_of_the_engine() -> None:
    """TideDra/lmm-r1#70: the traceback of the trainer is cut before its exception."""
    title = "# bash examples/scripts/lmm_r1/train_fre_multi.sh mathv60k AssertionError\n\n"
    calls = (
        "Traceback (most recent call last):\n"
        '  File "/tmp/ray/working_dir_files/openrlhf/cli/train_ppo_ray.py", line 186, in train\n'
        "    ray.get(refs)\n"
    )
    beside, alone = read_log(title + calls).failure, read_log(title).failure

    assert beside is not None
    assert beside.cause is None
    assert alone is not None
    assert alone.cause is not None


def test_an_exception_in_quotes_ends_with_them() -> None:
    """ray-project/ray#51193."""
    failure = read_log(
        '# [Ray Serve]: "RuntimeError: No CUDA GPUs are available" when running vllm with ray\n'
    ).failure

    assert failure is not None
    assert failure.message == "No CUDA GPUs are available"
