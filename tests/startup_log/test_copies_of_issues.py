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
