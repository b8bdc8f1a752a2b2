"""Logs that a collector wrapped in JSON, or whose ends of lines are escaped."""

import json
import time

import pytest

from service.startup_log.log import read_log
from service.startup_log.text.escaped_lines import unescaped
from service.startup_log.text.lines import read_lines

LOG = (
    "\x1b[1;36m(EngineCore pid=1)\x1b[0;0m ERROR 05-14 09:10:07 [a.py:9] Traceback (most recent call last):\n"
    '(EngineCore pid=1) ERROR 05-14 09:10:07 [a.py:9]   File "/x/vllm/v1/gpu.py", line 1, in init\n'
    "(EngineCore pid=1) ERROR 05-14 09:10:07 [a.py:9] ValueError: Free memory on device (3.22/4.0 GiB) "
    "on startup is less than desired GPU memory utilization (0.9, 3.6 GiB).\n"
    "(APIServer pid=1) RuntimeError: Engine core initialization failed."
)
LINES = LOG.split("\n")
FORMS = {
    # docker's json-file driver; Loki's query_range; Google Cloud's export; fluentd
    "docker": "\n".join(json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "t"}) for line in LINES),
    "loki": json.dumps({"data": {"result": [{"stream": {}, "values": [["17", line] for line in LINES]}]}}),
    "cloud": json.dumps([{"textPayload": line, "severity": "ERROR"} for line in LINES], indent=1),
    "fluentd": json.dumps({"message": LOG, "level": "error"}),
    "quoted in a quote": json.dumps(json.dumps({"log": LOG})),
    "escapes alone": LOG.encode("unicode_escape").decode().replace('"', '\\"'),
    "carets": LOG.replace("\x1b", "^[").replace("\n", "^M\n"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_wrapped_log_is_read_as_the_log_itself(form: str) -> None:
    failure, plain = read_log(FORMS[form]).failure, read_log(LOG).failure

    assert failure is not None
    assert plain is not None
    assert failure.cause == plain.cause
    assert failure.message.rstrip('",') == plain.message
    assert [frame.path for frame in failure.frames] == ["/x/vllm/v1/gpu.py"]


@pytest.mark.parametrize(
    "line",
    [
        '{"object":"error","message":"The model `a` does not exist.","type":"NotFoundError","code":404}',
        '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}',
        r"ERROR: cannot open C:\new\models\name\tokenizer.json",
        "a sentence",
        '{"log": broken',
        "",
    ],
)
def test_any_other_line_stays_as_it_is(line: str) -> None:
    assert unescaped(line) == line


def test_all_lines_of_one_have_its_number_and_no_secrets() -> None:
    line = json.dumps({"log": "INFO a [a.py:1] x\nINFO b [a.py:2] --api-key sk-0123456789abcdef0123\n"})
    lines = read_lines(f"first\n{line}\nlast")

    assert [each.number for each in lines] == [1, 2, 2, 3]
    assert "sk-0123456789abcdef0123" not in "".join(each.text for each in lines)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 500_000,
        '{"log":"' * 120_000,
        "\\n" * 500_000,
        '["' + "\\\\n(a" * 200_000,
        '{"log":"' + '\\"' * 400_000,
    ],
)
def test_hostile_lines_take_linear_time(text: str) -> None:
    started = time.process_time()
    unescaped(text)

    assert time.process_time() - started < 1.0
