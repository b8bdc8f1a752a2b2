"""Who answers when: the Hub, the snapshot in its stead, or an error that says why neither."""

from collections.abc import Callable
from dataclasses import dataclass, field

import httpx2
import pytest

from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import (
    ConfigNotJson,
    HubError,
    HubRateLimited,
    HubUnreachable,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
)
from service.hub.model_source import ModelSource
from service.hub.transport.credential import callers_own
from tests.hub.fake_hub import (
    COMMIT,
    LLAMA,
    MODEL,
    OTHER_COMMIT,
    FakeHub,
    Repository,
    hub_with_model,
    refused,
)

BUNDLED = "Qwen/Qwen3.6-35B-A3B"
BUNDLED_COMMIT = "995ad96eacd98c81ed38be0c5b274b04031597b0"
BUNDLED_AT_NO_KNOWN_COMMIT = "meta-llama/Llama-3.1-8B"


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Stage:
    """A source before a fake Hub, with a clock to turn."""

    hub: FakeHub = field(default_factory=hub_with_model)
    offline: bool = False
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.source = ModelSource(self.hub.client(clock=self.clock), BundledSnapshot(), offline=self.offline)

    def cut_off(self, error: type[httpx2.TransportError] = httpx2.ConnectError) -> None:
        def cut() -> httpx2.Response:
            raise error("cut off")

        self.hub.play("", cut)


async def test_the_hub_answers_first_even_for_a_bundled_model() -> None:
    stage = Stage(FakeHub({BUNDLED: Repository({"config.json": b'{"newer": true}'})}))
    fetched = await stage.source.resolve(BUNDLED)
    assert (fetched.source, fetched.config, fetched.revision) == ("hub", {"newer": True}, COMMIT)


@pytest.mark.parametrize("error", [httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ReadTimeout])
@pytest.mark.parametrize("revision", [None, "main", BUNDLED_COMMIT])
async def test_cut_off_the_snapshot_answers_and_says_why(
    error: type[httpx2.TransportError], revision: str | None
) -> None:
    stage = Stage()
    stage.cut_off(error)
    fetched = await stage.source.resolve(BUNDLED.upper(), revision)
    assert (fetched.id, fetched.source, fetched.revision) == (BUNDLED, "bundled", BUNDLED_COMMIT)
    assert fetched.note is not None
    assert "the Hub" in fetched.note


STOOD_IN_FOR: list[tuple[Callable[[], httpx2.Response], type[HubError]]] = [
    (lambda: refused(403, "GatedRepo"), ModelGated),
    (lambda: httpx2.Response(429, headers={"Retry-After": "9"}), HubRateLimited),
    (lambda: httpx2.Response(503), HubUnreachable),
    (lambda: httpx2.Response(200, html="<p>Log in to the network"), ConfigNotJson),
]


@pytest.mark.parametrize(("answer", "error"), STOOD_IN_FOR)
async def test_without_a_usable_answer_only_bundled_models_are_answered(
    answer: Callable[[], httpx2.Response], error: type[HubError]
) -> None:
    branches = {"main": COMMIT, "next": OTHER_COMMIT}
    files = {"config.json": b"{}"}

    def stage() -> Stage:
        hub = FakeHub({model_id: Repository(files, branches) for model_id in (MODEL, BUNDLED)})
        hub.play("/config.json", answer)
        return Stage(hub)

    fetched = await stage().source.resolve(BUNDLED)
    assert (fetched.source, fetched.id) == ("bundled", BUNDLED)
    with pytest.raises(error):
        await stage().source.resolve(MODEL)
    with pytest.raises(error):
        await stage().source.resolve(BUNDLED, OTHER_COMMIT)


async def test_the_note_of_a_gated_model_tells_how_to_get_access() -> None:
    stage = Stage(FakeHub({BUNDLED_AT_NO_KNOWN_COMMIT: Repository({"config.json": b"{}"})}))
    stage.hub.play("/config.json", lambda: refused(401, "GatedRepo"))
    note = (await stage.source.resolve(BUNDLED_AT_NO_KNOWN_COMMIT)).note
    assert note is not None
    assert f"https://hub.test/{BUNDLED_AT_NO_KNOWN_COMMIT}" in note


@pytest.mark.parametrize("code", ["RepoNotFound", "EntryNotFound"])
async def test_what_the_hub_does_not_know_is_not_taken_from_the_snapshot(code: str) -> None:
    stage = Stage()
    stage.hub.play("/config.json", lambda: refused(404, code))
    with pytest.raises(ModelNotFound):
        await stage.source.resolve(BUNDLED)


async def test_a_revision_the_hub_does_not_know_is_not_taken_from_the_snapshot() -> None:
    stage = Stage(FakeHub({BUNDLED: Repository({"config.json": b"{}"})}))
    with pytest.raises(RevisionNotFound):
        await stage.source.resolve(BUNDLED, BUNDLED_COMMIT)


@pytest.mark.parametrize("revision", [OTHER_COMMIT, "v1.0", BUNDLED_COMMIT[:7], BUNDLED_COMMIT.upper()])
async def test_the_snapshot_does_not_pretend_to_be_another_revision(revision: str) -> None:
    stage = Stage()
    stage.cut_off()
    for model_id in (BUNDLED, BUNDLED_AT_NO_KNOWN_COMMIT):
        with pytest.raises(HubUnreachable):
            await stage.source.resolve(model_id, revision)
    offline = Stage(offline=True)
    with pytest.raises(RevisionNotFound, match=BUNDLED_COMMIT):
        await offline.source.resolve(BUNDLED, revision)
    with pytest.raises(RevisionNotFound, match="does not state"):
        await offline.source.resolve(BUNDLED_AT_NO_KNOWN_COMMIT, revision)


async def test_a_silent_hub_is_left_alone_for_a_minute() -> None:
    stage = Stage()
    stage.cut_off()
    await stage.source.resolve(BUNDLED)
    requested = len(stage.hub.requests)
    stage.hub.faults.clear()
    stage.clock.now += 59.5
    assert (await stage.source.resolve(BUNDLED)).source == "bundled"
    with pytest.raises(HubUnreachable) as refusal:
        await stage.source.resolve(MODEL)
    assert refusal.value.retry_after == 1
    assert len(stage.hub.requests) == requested
    stage.clock.now += 0.5
    assert (await stage.source.resolve(MODEL)).config == LLAMA


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_a_hub_that_answers_is_asked_again_for_another_model(status: int) -> None:
    stage = Stage()
    stage.hub.play("/config.json", lambda: httpx2.Response(status))
    with pytest.raises(HubError):
        await stage.source.resolve(MODEL)
    stage.hub.faults.clear()
    stage.hub.repositories["acme/other"] = stage.hub.repositories[MODEL]
    assert (await stage.source.resolve("acme/other")).source == "hub"


async def test_offline_nothing_is_asked() -> None:
    stage = Stage(offline=True)
    fetched = await stage.source.resolve(BUNDLED, BUNDLED_COMMIT)
    assert (fetched.source, fetched.id) == ("bundled", BUNDLED)
    assert fetched.note is not None
    assert "HF_HUB_OFFLINE is set" in fetched.note
    with pytest.raises(ModelNotFound, match="HF_HUB_OFFLINE is set"):
        await stage.source.resolve(MODEL)
    assert stage.hub.requests == []


@pytest.mark.parametrize("offline", [False, True])
async def test_an_unknown_model_comes_with_ids_spelt_alike(offline: bool) -> None:
    stage = Stage(offline=offline)
    with pytest.raises(ModelNotFound) as refusal:
        await stage.source.resolve("Qwen/Qwen3.6-35B-A33B")
    assert refusal.value.nearest[0] == BUNDLED


@pytest.mark.parametrize(("asked", "near"), [("Qwen/Qwen3.6-35B-A33B", BUNDLED), (f"{MODEL}B", MODEL)])
async def test_an_outage_says_what_is_bundled_and_stored_too(asked: str, near: str) -> None:
    stage = Stage()
    await stage.source.resolve(MODEL)
    stage.cut_off()
    with pytest.raises(HubUnreachable) as outage:
        await stage.source.resolve(asked)
    assert outage.value.nearest[0] == near
    assert "ConnectError" in str(outage.value)
    assert f"{asked} is neither bundled nor stored here; the nearest are {near}" in str(outage.value)


async def test_an_outage_says_nothing_of_a_bundled_model_at_another_commit() -> None:
    stage = Stage()
    stage.cut_off()
    with pytest.raises(HubUnreachable) as outage:
        await stage.source.resolve(BUNDLED, OTHER_COMMIT)
    assert "neither bundled" not in str(outage.value)


async def test_a_caller_is_told_no_model_that_another_stored() -> None:
    stage = Stage()
    await stage.source.on_behalf_of(callers_own("hf_other")).resolve(MODEL)
    stage.cut_off()
    with pytest.raises(HubUnreachable) as outage:
        await stage.source.resolve(f"{MODEL}B")
    assert MODEL not in outage.value.nearest
