"""Hostile ids and revisions never leave the process; what leaves stays in its place."""

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.hub.errors import HubError, InvalidModelId, InvalidRevision
from service.hub.identity import check_model_id, check_revision
from service.hub.snapshot import BundledSnapshot
from service.hub.source import ModelSource
from tests.hub.fake_hub import ENDPOINT, MODEL, FakeHub, Repository

HOSTILE_IDS = [
    "",
    ".",
    "..",
    "/",
    "acme/",
    "/tiny",
    "acme//tiny",
    "../tiny",
    "acme/..",
    "acme/../other",
    "acme/tiny/../../api/whoami-v2",
    "acme/tiny/resolve",
    "acme%2Ftiny",
    "acme/%2e%2e",
    "acme/..%2Ftiny",
    "acme\\tiny",
    "acme/tiny\x00",
    "acme/tiny\n",
    "acme/tiny\r\nHost: evil.test",
    "acme/tiny ",
    "acme/tiny?x=1",
    "acme/tiny#x",
    "acme/t;x",
    "acme@evil.test/tiny",
    "https://evil.test/tiny",
    "//evil.test/tiny",
    "~/tiny",
    "/etc/passwd",
    "acme/tіny",  # noqa: RUF001 - a Cyrillic letter is the point
    "acmé/tiny",
    "acme/tiny\u202e",
    "acme\uff0ftiny",
    "acme/tiny\ud800",
    "acme/tiny.git",
    "acme/ti--ny",
    "acme/ti..ny",
    "-acme/tiny",
    "acme/tiny-",
    ".acme/tiny",
    "a" * 97,
    "acme/" + "t" * 10_000,
    "datasets/tiny",
    "Spaces/tiny",
    "api/models",
]
HOSTILE_REVISIONS = [
    "",
    "..",
    "../../api/whoami-v2",
    "main/../other",
    "main//x",
    "/main",
    "-main",
    ".main",
    "main\x00",
    "main\n",
    "main?x",
    "main#x",
    "main%2F..",
    "main\\x",
    "mаin",  # noqa: RUF001 - a Cyrillic letter is the point
    "main\ud800",
    "a" * 129,
]


@pytest.mark.parametrize("offline", [False, True])
@pytest.mark.parametrize("model_id", HOSTILE_IDS)
async def test_a_hostile_id_causes_no_request(model_id: str, offline: bool) -> None:
    hub = FakeHub()
    for ask in (hub.client().fetch, ModelSource(hub.client(), BundledSnapshot(), offline=offline).resolve):
        with pytest.raises(InvalidModelId) as caught:
            await ask(model_id)
        assert str(caught.value).isascii()
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300
    assert hub.requests == []


@pytest.mark.parametrize("revision", HOSTILE_REVISIONS)
async def test_a_hostile_revision_causes_no_request(revision: str) -> None:
    hub = FakeHub()
    for ask in (hub.client().fetch, ModelSource(hub.client(), BundledSnapshot()).resolve):
        with pytest.raises(InvalidRevision):
            await ask(MODEL, revision)
    assert hub.requests == []


@pytest.mark.parametrize("model_id", ["gpt2", "a/b", "Qwen/Qwen2.5-0.5B", "acme/t_1.x-y", "a" * 96])
@pytest.mark.parametrize("revision", ["main", "v1.0", "refs/pr/12", "0" * 40, "a" * 128, "feature/x_y"])
def test_what_the_hub_allows_is_allowed(model_id: str, revision: str) -> None:
    check_model_id(model_id)
    check_revision(model_id, revision)


NEAR_MISSES = st.text(alphabet="aZ0._-/%\\:@?# \x00\n;~é", min_size=1, max_size=30)


@given(model_id=NEAR_MISSES | st.text(), revision=NEAR_MISSES | st.just("main"))
async def test_an_id_and_a_revision_either_stay_in_their_place_or_stay_at_home(
    model_id: str, revision: str
) -> None:
    hub = FakeHub({model_id: Repository({"config.json": b"{}"}, branches={revision: "0" * 40})})
    try:
        await hub.client().fetch(model_id, revision)
    except HubError as error:
        assert isinstance(error, InvalidModelId | InvalidRevision)  # noqa: PT017 - both outcomes are lawful
        assert hub.requests == []
    else:
        segment = revision.replace("/", "%2F")
        place = f"{ENDPOINT}/api/models/{model_id}/revision/{segment}"
        assert str(hub.requests[0].url).partition("?")[0] == place
        assert hub.requests[1].url == httpx2.URL(f"{ENDPOINT}/{model_id}/resolve/{'0' * 40}/config.json")
        assert len(hub.requests) == 2
