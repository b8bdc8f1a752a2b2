"""Tokens: how long they are accepted, when they were used, and those that a file declares."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.store.database import Database
from service.store.token import Scope
from service.store.token_file import LOOK_SECONDS, InvalidTokenFile, TokenFile
from service.store.tokens import USE_SECONDS, TokenStore
from tests.store.conftest import SetClock

DAY = 86_400
SECRET, OTHER = "s" * 32, "o" * 40


async def test_a_token_expires(database: Database, clock: SetClock) -> None:
    tokens = TokenStore(database, clock)
    text = await tokens.create("pool", Scope.WORKER, days=2)
    for_ever = await tokens.create("pool", Scope.WORKER)
    clock.now += 2 * DAY - 1
    assert await tokens.find(text) is not None
    clock.now += 1
    assert await tokens.find(text) is None
    assert await tokens.find(for_ever) is not None
    assert [each.expires_at for each in await tokens.all()] == [clock.now, None]


async def test_the_last_use_of_a_token_is_noted_now_and_then(database: Database, clock: SetClock) -> None:
    tokens = TokenStore(database, clock)
    text = await tokens.create("pool", Scope.READER)
    first = clock.now
    for later, noted in ((0.0, first), (USE_SECONDS, first), (USE_SECONDS + 1, first + USE_SECONDS + 1)):
        clock.now = first + later
        assert await tokens.find(text) is not None
        (stored,) = await tokens.all()
        assert stored.last_used_at == noted
    assert await tokens.find(text[:-1] + "!") is None
    assert (await tokens.all())[0].last_used_at == first + USE_SECONDS + 1


def written(folder: Path, text: str) -> Path:
    file = folder / "tokens"
    file.write_text(text)
    return file


def test_a_file_declares_tokens(tmp_path: Path) -> None:
    day = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
    clock = SetClock(day + DAY - 1)
    file = written(tmp_path, f"# ours\n\nops operator {SECRET}\npool  worker {OTHER}  2026-11-22\n")
    tokens = TokenFile(file, clock)
    found = tokens.find(SECRET)
    assert found is not None
    assert (found.name, found.scope) == ("ops", Scope.OPERATOR)
    assert tokens.find(OTHER) is not None
    clock.now += 1
    assert tokens.find(OTHER) is None
    assert tokens.find(SECRET) == found
    for forged in ("", "ops", SECRET + "s", SECRET[:-1]):
        assert tokens.find(forged) is None


def test_the_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    file = written(tmp_path, f"ops operator {SECRET}")
    tokens = TokenFile(file, monotonic=clock)
    written(tmp_path, f"ops operator {OTHER}")
    assert tokens.find(OTHER) is None
    clock.now += LOOK_SECONDS
    assert tokens.find(OTHER) is not None
    assert tokens.find(SECRET) is None
    # What cannot be read changes nothing, and none of it is logged.
    written(tmp_path, "ops operator short-secret")
    clock.now += LOOK_SECONDS
    assert tokens.find(OTHER) is not None
    assert "short-secret" not in caplog.text
    file.unlink()
    clock.now += LOOK_SECONDS
    assert tokens.find(OTHER) is not None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"ops {SECRET}", "line 2 must be"),
        (f"ops admin {SECRET}", "line 2 must be"),
        (f"ops operator {SECRET} tomorrow", "line 2 must be"),
        (f"ops operator {SECRET} 2026-01-01 more", "line 2 must be"),
        ("ops operator tooshort", "32 to 512"),
    ],
)
def test_a_line_that_declares_no_token_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(InvalidTokenFile, match=words) as refusal:
        TokenFile(written(tmp_path, f"# x\n{line}\n"))
    assert SECRET not in str(refusal.value)
    assert "tooshort" not in str(refusal.value)
