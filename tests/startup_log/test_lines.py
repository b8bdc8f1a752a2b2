import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.redaction import HIDDEN
from service.startup_log.text.lines import (
    MAX_CHARACTERS,
    MAX_LINE,
    MAX_LINES,
    clean,
    read_lines,
)


@pytest.mark.parametrize(
    ("line", "text", "origin"),
    [
        (
            "(EngineCore_DP0 pid=12) INFO 11-21 [kv_cache_utils.py:1319] GPU KV cache size: 1 tokens",
            "GPU KV cache size: 1 tokens",
            ("kv_cache_utils.py", 1319),
        ),
        (
            "(Worker pid=485) ERROR 04-22 15:14:02 [v1/executor/multiproc_executor.py:857] ValueError: no",
            "ValueError: no",
            ("v1/executor/multiproc_executor.py", 857),
        ),
        (
            "INFO 2025-11-07 17:18:06.633 backends.py:459] Using cache directory: /c for torch.compile",
            "Using cache directory: /c for torch.compile",
            ("backends.py", 459),
        ),
        ("(APIServer pid=1) ValueError: no", "ValueError: no", None),
        # rsyslog writes control characters as numbers; CloudWatch exports times, and fields of CSV.
        ("1756144011375,#033[1;36m(VllmWorker pid=96)#033[0;0m ValueError: no#015", "ValueError: no", None),
        ('1756144011375,"  File ""/x/a.py"", line 5, in main#015"', 'File "/x/a.py", line 5, in main', None),
        ("Aug 17 18:42:18 host vllm[8052]: (APIServer pid=8052) ValueError: no", "ValueError: no", None),
        ("2026-11-21T15:48:15Z plain", "2026-11-21T15:48:15Z plain", None),
        ("\x1b[1;36m(APIServer pid=1)\x1b[0;0m INFO:     Started", "INFO:     Started", None),
    ],
)
def test_a_line_is_told_apart_from_what_stands_before_it(
    line: str, text: str, origin: tuple[str, int] | None
) -> None:
    (read,) = read_lines(line)

    assert (read.number, read.text, read.origin) == (1, text, origin)


def test_lines_are_counted_in_the_log_as_given() -> None:
    assert [(line.number, line.text) for line in read_lines("a\n\nb\r\nc")] == [
        (1, "a"),
        (2, ""),
        (3, "b"),
        (4, "c"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {'api_key': ['SECRETsecret1'], 'model': 'm'}",
        "vllm serve m --api-key SECRETsecret1 --port 80",
        "vllm serve m --api-key=SECRETsecret1",
        "vllm serve m --hf-token 'SECRETsecret1'",
        "HF_TOKEN=SECRETsecret1 vllm serve m",
        "export HUGGING_FACE_HUB_TOKEN: SECRETsecret1",
        "Authorization: Bearer SECRETsecret1",
        "GET https://user:SECRETsecret1@host/model",
        "'aws_secret_access_key': 'SECRETsecret1'",
        "token hf_SECRETsecret1",
        "key sk-SECRETsecret1",
        "ghp_SECRETsecret1 github_pat_SECRETsecret1",
        "eyJhbGciOiJIUzI1NiJ9.SECRETsecret1.abc",
        'client_password: "SECRETsecret1"',
    ],
)
def test_what_looks_like_a_secret_is_not_kept(line: str) -> None:
    assert "SECRETsecret1" not in clean(line)
    assert HIDDEN in clean(line)


@pytest.mark.parametrize(
    "line",
    [
        "GPU KV cache size: 25,200 tokens",
        "Maximum concurrency for 131,072 tokens per request: 1.87x",
        "Chunked prefill is enabled with max_num_batched_tokens=8192.",
        "non-default args: {'model': 'org/name', 'max_num_batched_tokens': 2048, 'tokenizer_mode': 'auto'}",
        "tokenizer='google/gemma-2-27b-it', skip_tokenizer_init=False, tokenizer_revision=None",
    ],
)
def test_what_is_no_secret_is_kept(line: str) -> None:
    assert clean(line) == line


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert all(line.text.isprintable() for line in read_lines(text))


def test_a_long_log_keeps_its_ends_and_the_numbers_of_their_lines() -> None:
    # 10 characters a line: 300,000 lines, 3 million characters, of which a third in the middle is not read.
    lines = read_lines("".join(f"{number:09}\n" for number in range(1, 300_001)))

    assert (lines[0].number, lines[0].text) == (1, "000000001")
    assert (lines[-1].number, lines[-1].text) == (300_000, "000300000")
    assert len(lines) == MAX_LINES
    assert all(line.number == int(line.text) for line in lines if len(line.text) == 9)


def test_a_long_line_loses_its_end() -> None:
    (line,) = read_lines("x" * (MAX_LINE + 1))

    assert len(line.text) == MAX_LINE
    assert MAX_LINE < MAX_CHARACTERS


def test_a_time_may_have_the_year_and_thousandths() -> None:
    (read,) = read_lines("INFO 2025-11-07 17:18:06.633 backends.py:459] Dynamo: 6.11 s")

    assert (read.level, read.time) == ("INFO", "11-07 17:18:06")


def test_a_heading_is_no_log_line() -> None:
    """The form of vllm-project/vllm#15508, whose title quotes two messages."""
    line = read_lines("# Block size must be a multiple of 16. [core_client.py:269] Got fatal signal")[0]

    assert line.origin is None
    assert "Block size" in line.text


def test_a_failure_in_the_middle_of_many_short_lines_is_read() -> None:
    half = [f"a {at}" for at in range(MAX_LINES)]
    failed = [*half, "Traceback (most recent call last):", "ValueError: abc", *half]
    lines = read_lines("\n".join(failed))
    assert len(lines) == MAX_LINES
    assert (MAX_LINES + 2, "ValueError: abc") in {(line.number, line.text) for line in lines}
    assert [line.number for line in lines] == sorted(line.number for line in lines)
