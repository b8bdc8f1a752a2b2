"""What is logged: one line of JSON each, whoever logs it, and no secret in it."""

import json
import os
import subprocess
import sys
from typing import Any

LOGGED = """if True:
    import logging, sys
    import structlog
    from structlog.contextvars import bind_contextvars
    from service.logs import configure_logs
    configure_logs(sys.argv[1])
    log = structlog.stdlib.get_logger("dryserve.test")
    bind_contextvars(request_id="r-1")
    log.info("percent %s {brace}", share="100 % \\u00fc", count=3, secret="HF_TOKEN=hf_" + "a" * 34)
    log.debug("unheard")
    try:
        raise ValueError("api_key=abcdefgh")
    except ValueError:
        log.exception("failed")
    logging.getLogger("uvicorn.error").warning("of a library: %s", "password=hunter22")
    logging.getLogger("httpx2").info("too much")
"""


def lines(level: str) -> list[dict[str, Any]]:
    command = (sys.executable, "-c", LOGGED, level)
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert not done.stdout
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_every_line_is_an_object_with_the_same_names() -> None:
    own, failed, of_library = lines("info")
    for line in (own, failed, of_library):
        assert line.pop("timestamp").endswith("Z")
        assert line.pop("request_id") == "r-1"
    assert own == {
        "event": "percent %s {brace}",
        "share": "100 % \u00fc",
        "count": 3,
        "secret": "HF_TOKEN=***",
        "logger": "dryserve.test",
        "level": "info",
    }
    traceback = failed.pop("exception")
    assert failed == {"event": "failed", "logger": "dryserve.test", "level": "error"}
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith("ValueError: api_key=***")
    assert of_library == {
        "event": "of a library: password=***",
        "logger": "uvicorn.error",
        "level": "warning",
    }


def test_the_level_is_the_one_that_is_set() -> None:
    assert [line["event"] for line in lines("error")] == ["failed"]
    assert [line["event"] for line in lines("debug")].count("unheard") == 1
