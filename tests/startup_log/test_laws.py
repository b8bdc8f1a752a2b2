"""What holds for any log, however made."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.startup_log.log import read_log
from service.startup_log.text.lines import MAX_CHARACTERS, read_lines
from tests.startup_log.hostile import SENTENCES, UNITS, hostile_log

PIECES = st.one_of(
    st.sampled_from(SENTENCES),
    st.sampled_from(
        [
            *(
                "\n",
                "\r",
                " GiB",
                ")",
                "(",
                "{",
                "}",
                "'",
                '"',
                "\\",
                ",",
                ":",
                "=",
                "--",
                "[a.py:1] ",
                "\x1b[31m",
            ),
            *(
                "non-default args: {",
                " with config: model=",
                "vllm serve ",
                "ValueError: ",
                "0.19.0",
                "K",
                "-1",
            ),
        ]
    ),
    st.integers(-(10**6), 10**20).map(str),
    st.text(max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_log_is_read_and_is_printable(text: str) -> None:
    log = read_log(text)

    said = [log.release, log.model, *log.unmodelled, *(str(reading.value) for reading in log.readings)]
    if log.failure is not None:
        said += [log.failure.type, log.failure.message]
    assert all(each is None or each.isprintable() for each in said)
    assert read_log(text) == log


@given(
    st.sampled_from(
        ["--api-key", "--hf-token", "HF_TOKEN=", "'api_key': [", "password: ", "Authorization: Bearer"]
    ),
    st.from_regex(r"[A-Za-z0-9]{12,40}", fullmatch=True),
    st.lists(PIECES, max_size=4).map("".join),
)
def test_a_secret_is_in_nothing_that_is_read(name: str, secret: str, around: str) -> None:
    around = around.replace(secret, "")
    log = read_log(f"vllm serve m {name} {secret}\nValueError: {name} {secret} {around}")

    assert secret not in repr(log)


@pytest.mark.parametrize("unit", UNITS)
def test_a_hostile_log_costs_no_more_than_its_length(unit: str) -> None:
    """Two thirds of what is read of any log take few seconds, so that no expression backtracks without bound.

    ``make bench`` reads the whole size.
    """
    text = hostile_log(unit, MAX_CHARACTERS * 2 // 3)
    started = time.process_time()
    read_log(text)

    assert time.process_time() - started < 5


@pytest.mark.parametrize("mark", ["# ", "// "])
@pytest.mark.parametrize("drawn", "=-#/")
def test_a_long_rule_in_a_comment_costs_no_more_than_its_length(mark: str, drawn: str) -> None:
    """Searched from each of its characters, a long rule that ends otherwise takes hours."""
    text = f"{mark}{drawn * MAX_CHARACTERS}x\n{mark}goes on in small letters\n"
    started = time.process_time()
    read_log(text)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("unit", ["\\\n", "$ vllm serve m \\\n", "a\\\n", " --x \\\n"])
def test_a_command_on_many_lines_costs_no_more_than_its_length(unit: str) -> None:
    """60 kB of lines that each go on took seconds, when each was joined to all before it."""
    started = time.process_time()
    read_log("$ vllm serve m \\\n" + unit * (60_000 // len(unit)))
    assert time.process_time() - started < 10


def test_a_command_on_many_lines_is_read() -> None:
    log = read_log("$ vllm serve org/name \\\n" + "  --max-num-seqs 8 \\\n" * 200 + "  --max-model-len 4096")
    assert (log.model, log.flags) == ("org/name", {"max_num_seqs": 8, "max_model_len": 4096})


def test_repeated_lines_are_read_as_they_stand() -> None:
    log = read_lines("a: 1\nINFO 01-01 10:00:00 [b.py:2] c\na: 1\nINFO 01-01 10:00:00 [b.py:2] c\n")

    assert [line.number for line in log] == [1, 2, 3, 4]
    assert (log[0].text, log[1].origin, log[1].level) == (log[2].text, log[3].origin, log[3].level)
    assert (log[1].text, log[1].time) == ("c", "01-01 10:00:00")
