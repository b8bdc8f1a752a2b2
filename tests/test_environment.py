import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.settings import PREFIX, Settings
from tests.environment import is_cleared

HOSTILE = {
    "DRYSERVE_PORT": "not-a-port",
    "DRYSERVE_DATABASE_URL": "nonsense://",
    "HF_HUB_OFFLINE": "1",
    "HF_TOKEN": "hf_of-somebody",
    "HF_ENDPOINT": "https://mirror.invalid",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "ALL_PROXY": "socks5://127.0.0.1:9",
}
"""What a shell may hold: with one of these the tests of settings, hub and command line fail if it is seen."""
SAMPLE = ("tests/api/test_settings.py", "tests/hub/test_model_source.py")


def test_every_variable_that_the_settings_read_is_cleared() -> None:
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        choices = [PREFIX + name] if alias is None else getattr(alias, "choices", [alias])
        assert all(is_cleared(str(choice).upper()) for choice in choices), name


def test_no_proxy_is_left() -> None:
    assert not [name for name in os.environ if name.lower().endswith("_proxy")]


@pytest.mark.slow
def test_tests_pass_in_a_shell_that_holds_all_of_this() -> None:
    ended = subprocess.run(  # noqa: S603 - this very Python, on these very tests
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **HOSTILE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
