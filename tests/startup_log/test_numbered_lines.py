"""Numbers that a pager puts before lines are no part of them, and other numbers stay."""

import pytest

from service.startup_log.log import read_log
from service.startup_log.text.numbered_lines import without_numbers

LINES = (
    "INFO 05-14 09:10:00 [api_server.py:1] vLLM API server version 0.19.0",
    "Traceback (most recent call last):",
    '  File "/x/vllm/config/model.py", line 9, in verify',
    "    raise ValueError(",
    "",
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
    "INFO 05-14 09:10:07 [launcher.py:80] Shutting down",
)


@pytest.mark.parametrize("form", ["{:6}\t{}", "{}: {}", "{:>4} | {}", "{:5}  {}", "{:3}. {}"])
def test_numbers_of_lines_are_taken_off(form: str) -> None:
    numbered = [form.format(number, line).rstrip() for number, line in enumerate(LINES, 118)]
    assert [line.strip() for line in without_numbers(numbered)] == [line.strip() for line in LINES]
    failure = read_log("\n".join(("This is in the log:", *numbered, "What can I do?"))).failure
    assert failure is not None
    assert failure.cause is not None
    assert (
        failure.cause.name == "dtype_not_on_this_gpu"
    )  # vLLM 0.19.0, platforms/cuda.py check_if_supports_dtype


@pytest.mark.parametrize(
    "lines",
    [
        [f"{gpu}  NVIDIA L4  23034MiB" for gpu in range(8)],
        [f"{100 - at} tokens" for at in range(20)],
        [f"{at}{at} x" for at in range(20)],
        ["1 a", "", "prose", "2 b", "3 c", "more", "4 d", "5 e", "6 f"],
        [],
    ],
)
def test_other_numbers_stay(lines: list[str]) -> None:
    assert without_numbers(lines) == lines
