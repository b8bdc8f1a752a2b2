import pytest
from packaging.version import Version

from service.engines.timeline import Change, InvalidTimeline, Timeline


def timeline(*dates: str) -> Timeline[str]:
    return Timeline("rule", tuple(Change(Version(date), date, "a source") for date in dates))


@pytest.mark.parametrize(
    ("release", "value"),
    [("0.12.0", "0.12.0"), ("0.12.1", "0.12.0"), ("0.24.0", "0.24.0"), ("1.0", "0.24.0")],
)
def test_a_value_holds_until_the_next_change(release: str, value: str) -> None:
    assert timeline("0.12.0", "0.24.0").at(Version(release)) == value


def test_nothing_is_said_of_releases_before_the_first_change() -> None:
    with pytest.raises(LookupError, match=r"0\.12\.0"):
        timeline("0.12.0").at(Version("0.11.2"))


@pytest.mark.parametrize("dates", [(), ("0.24.0", "0.12.0"), ("0.12.0", "0.12.0")])
def test_dates_must_be_in_order_and_there(dates: tuple[str, ...]) -> None:
    with pytest.raises(InvalidTimeline):
        timeline(*dates)


@pytest.mark.parametrize(
    "raw",
    [
        {"since": "0.12.0", "value": "1"},
        {"since": "not a version", "value": "1", "source": "s"},
        {"since": "0.12.0", "value": "one", "source": "s"},
    ],
)
def test_a_malformed_change_is_refused(raw: dict[str, str]) -> None:
    with pytest.raises(InvalidTimeline):
        Timeline.parse("rule", [raw], int)
