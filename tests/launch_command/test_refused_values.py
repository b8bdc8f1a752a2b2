"""Values that an engine refuses at its start, though a plan does not use their flags."""

import pytest

from service.launch_command.read_commands import read_command
from tests.advice.rows import KEPT, read_rows
from tests.launch_command.test_rows import AHEAD, as_line, words_of

AUTO = "--enable-auto-tool-choice --tool-call-parser"


def faults(flags: str, release: str = "0.33.0") -> tuple[str, ...]:
    return read_command(f"vllm serve org/m {flags}", release).faults


@pytest.mark.parametrize(
    ("flags", "release", "words"),
    [
        (f"{AUTO} hermis", "0.33.0", ("invalid tool call parser: 'hermis'", "hermes")),
        (
            f"{AUTO} hermis --tool-parser-plugin ''",
            "0.33.0",
            ("invalid tool call parser: 'hermis'", "hermes"),
        ),
        ("--reasoning-parser qwen33", "0.33.0", ("invalid reasoning parser: 'qwen33'", "qwen3")),
        # Release notes: Gemma 4 came with 0.19.0, the parsers of DeepSeek-V3.2 with 0.13.0.
        (f"{AUTO} gemma4", "0.18.1", ("it came with 0.19.0",)),
        (f"{AUTO} deepseek_v32", "0.12.0", ("it came with 0.13.0",)),
        ("--reasoning-parser none", "0.32.0", ("invalid reasoning parser: 'none'",)),
        ("--enable-auto-tool-choice", "0.20.2", ("requires --tool-call-parser",)),
        ("--chat-template-content-format foo", "0.33.0", ("invalid choice: 'foo'", "'openai'")),
        # Before 0.12.0 the parser takes four words; then the registry is asked when a tokenizer is loaded.
        ("--tokenizer-mode mistrall", "0.11.0", ("invalid choice: 'mistrall'", "'mistral'")),
        ("--tokenizer-mode mistrall", "0.12.0", ("invalid tokenizer mode: 'mistrall'", "mistral")),
        ("--tokenizer-mode mistrall", "0.33.0", ("invalid tokenizer mode: 'mistrall'", "mistral")),
        ("--tokenizer-mode slow", "0.33.0", ("invalid tokenizer mode: 'slow'", "0.31.0 removed it")),
        ("--tokenizer-mode deepseek_v32", "0.12.0", ("it came with 0.13.0",)),
        ("--config-format mistrall", "0.20.2", ("invalid config format: 'mistrall'", "mistral")),
        ("--distributed-executor-backend rai", "0.10.2", ("has no 'rai'", "ray")),
        ("--distributed-executor-backend Ray", "0.33.0", ("has no 'Ray'", "ray")),
        ("--data-parallel-backend rai", "0.33.0", ("has no 'rai'", "mp, ray")),
        ("--distributed-executor-backend ray --nnodes 2", "0.33.0", ("nnodes > 1 can only be set",)),
        ("--distributed-executor-backend external_launcher --nnodes 2", "0.12.0", ("is mp or uni; it is",)),
        ("--distributed-executor-backend uni --nnodes 2", "0.11.2", ("nnodes > 1 can only be set",)),
        (
            "--data-parallel-backend ray --nnodes 2",
            "0.20.2",
            ("only supported with data_parallel_backend=mp",),
        ),
    ],
)
def test_what_the_release_does_not_have_is_refused(flags: str, release: str, words: tuple[str, ...]) -> None:
    (fault,) = faults(flags, release)
    assert all(each in fault for each in words), fault


@pytest.mark.parametrize(
    "flags",
    [
        f"{AUTO} mine --tool-parser-plugin /plugins/mine.py",
        "--reasoning-parser mine --reasoning-parser-plugin /plugins/mine.py",
        f"{AUTO} $PARSER",
        "--tool-call-parser hermis",
        "--reasoning-parser None",
        f"{AUTO} hermes --reasoning-parser qwen3 --chat-template-content-format openai",
        "--tokenizer-mode Mistral --config-format mistral",
        "--tokenizer-mode mine --skip-tokenizer-init",
        "--tokenizer-mode $MODE",
        "--distributed-executor-backend mine.executors.Mine",
        "--distributed-executor-backend ray --data-parallel-backend ray",
        "--distributed-executor-backend mp --nnodes 2",
        "--distributed-executor-backend external_launcher --nnodes 2",
    ],
)
def test_what_the_release_takes_is_no_fault(flags: str) -> None:
    assert faults(flags) == ()


@pytest.mark.parametrize(
    ("flags", "release", "said"),
    [
        (
            "--tool-call-parser hermis",
            "0.33.0",
            ("only with --enable-auto-tool-choice", "'hermis' either", "hermes"),
        ),
        ("--tool-call-parser gemma4", "0.18.1", ("'gemma4' either; it came with 0.19.0",)),
        ("--tool-call-parser hermes", "0.20.2", ("only with --enable-auto-tool-choice",)),
        ("--tool-call-parser hermis --no-enable-auto-tool-choice", "0.33.0", ("'hermis' either",)),
    ],
)
def test_a_parser_that_is_not_read_is_noted(flags: str, release: str, said: tuple[str, ...]) -> None:
    """vLLM 0.33.0 on ParserManager.get_tool_parser: no parser where tools are not chosen by the model."""
    (note,) = read_command(f"vllm serve org/m {flags}", release).notes
    assert all(each in note for each in said)
    assert ("either" in note) is any("either" in each for each in said)


@pytest.mark.parametrize("flags", [f"{AUTO} hermes", "--reasoning-parser qwen3", "--tensor-parallel-size 2"])
def test_a_parser_that_is_read_is_not_noted(flags: str) -> None:
    assert read_command(f"vllm serve org/m {flags}", "0.33.0").notes == ()


def test_every_parser_of_a_published_command_is_one_of_its_release() -> None:
    """The commands were published by vLLM's recipes and by people who ran them."""
    rows = [row for row in read_rows(KEPT, "rows.jsonl") if any("parser" in word for word in words_of(row))]
    assert len(rows) > 100
    wrong = {row["id"]: found for row in rows if (found := read_command(as_line(row), row["version"]).faults)}
    assert wrong.keys() == AHEAD


@pytest.mark.parametrize(
    ("flags", "written"),
    [
        ("--limit-mm-per-prompt image=2", """--limit-mm-per-prompt '{"image": 2}'"""),
        ("--limit-mm-per-prompt=image=2,video=0", """--limit-mm-per-prompt '{"image": 2, "video": 0}'"""),
        ("--override-generation-config temperature=0.5", """'{"temperature": 0.5}'"""),
        ("--hf-overrides \"{'a': 1}\"", """--hf-overrides '{"a": 1}'"""),
        ('--limit-mm-per-prompt {"image":2}', "put the whole value in single quotes"),
        ("--speculative-config ngram", "argument --speculative-config: the value is no JSON"),
        ("--compilation-config 3", "no object"),
        ("--override-generation-config [1]", "no object"),
    ],
)
@pytest.mark.parametrize("release", ["0.10.2", "0.19.0", "0.33.0"])
def test_what_json_loads_refuses_is_refused(flags: str, written: str, release: str) -> None:
    """json.loads itself refuses these words, or returns no object; the engine calls it on each.

    Source: vLLM 0.10.2, 0.19.0, 0.33.0, engine/arg_utils.py parse_type, parse_dataclass, union_dict_and_str.
    """
    (fault,) = faults(flags, release)
    assert written in fault


def test_what_is_to_be_written_is_taken() -> None:
    for flags in ("--limit-mm-per-prompt image=2", "--mm-processor-kwargs max_pixels=100"):
        (fault,) = faults(flags)
        assert faults(fault.partition("write ")[2]) == ()


@pytest.mark.parametrize(
    "flags",
    [
        "-O3",
        "-O 2",
        "--compilation-config.mode 3",
        "--limit-mm-per-prompt.image 2",
        "--override-generation-config.temperature 0.5",
        "--mm-processor-kwargs=",
        "--speculative-config None",
        """--limit-mm-per-prompt '{"image": {"count": 2, "width": 512}}'""",
        """--kv-transfer-config '{"kv_connector": "80m", "n": 80m}'""",
        """--allowed-origins '["*"]'""",
        "--limit-mm-per-prompt $LIMITS",
    ],
)
def test_forms_that_the_engine_takes_are_no_fault(flags: str) -> None:
    """Source: vLLM 0.33.0, optional_type, FlexibleArgumentParser and _expand_json_human_readable_numbers."""
    assert faults(flags) == ()


def test_no_text_is_no_json_where_the_type_is_not_optional() -> None:
    assert "no JSON" in faults("--override-generation-config=")[0]


def test_a_secret_in_a_refused_value_is_not_shown() -> None:
    (fault,) = faults("--kv-transfer-config token=hf_abcdefghijklmnopqrstuvwxyz")
    assert "hf_abc" not in fault


@pytest.mark.parametrize("release", ["0.30.0", "0.12.0", "0.10.2"])
def test_a_slow_tokenizer_is_taken_before_it_was_removed(release: str) -> None:
    assert faults("--tokenizer-mode slow", release) == ()


@pytest.mark.parametrize(
    ("flag", "release", "words"),
    [
        # vLLM 0.9.2, engine/arg_utils.py: --enable-reasoning is deprecated, --reasoning-parser is enough.
        (
            "--enable-reasoning",
            "0.33.0",
            "no argument --enable-reasoning: --reasoning-parser alone turns it on",
        ),
        ("--worker_use_ray", "0.33.0", "pass --distributed-executor-backend ray"),
        ("--swap-space 4", "0.33.0", "0.18.0 removed it; leave it out"),
    ],
)
def test_what_stands_in_place_of_a_removed_argument_is_said(flag: str, release: str, words: str) -> None:
    (unknown,) = read_command(f"vllm serve org/m {flag}", release).unknown
    assert words in str(unknown)
    assert unknown.nearest == ()


@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        ("--enable-chunked-prefill False", "write --no-enable-chunked-prefill"),
        ("--enforce_eager true", "write --enforce-eager"),
        ("--no-enable-prefix-caching True", "write --no-enable-prefix-caching"),
        ("--no-enable-prefix-caching false", "write --enable-prefix-caching"),
    ],
)
def test_a_switch_with_a_truth_value_says_what_to_write(flags: str, meant: str) -> None:
    """argparse.BooleanOptionalAction takes no value: the word belongs to no option."""
    found = read_command(f"docker run vllm/vllm-openai:v0.19.0 --model org/m {flags} --port 8000")
    (fault,) = found.faults
    assert fault.endswith(meant)
    assert found.launch.model == "org/m"
