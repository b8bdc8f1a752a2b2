"""A Hub that refuses, stalls, floods or deceives is answered by a named error, in time and in bytes."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2
import pytest

from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    HubError,
    HubRateLimited,
    HubTimedOut,
    HubUnreachable,
    InvalidModelId,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
)
from service.hub.limits import TransferLimits
from service.hub.transport.credential import Credential, callers_own
from service.redaction import hide_secrets
from tests.hub.fake_hub import (
    COMMIT,
    ENDPOINT,
    LLAMA,
    MODEL,
    TOKEN,
    EndlessBody,
    FakeHub,
    hub_with_model,
    refused,
)

CONFIG = "/config.json"


async def failure_of(response: Callable[[], httpx2.Response]) -> HubError:
    hub = hub_with_model()
    hub.play(CONFIG, response)
    with pytest.raises(HubError) as caught:
        await hub.client().fetch(MODEL)
    assert caught.value.model_id == MODEL
    assert TOKEN not in repr(caught.value) + str(caught.value.__cause__)
    return caught.value


@dataclass(frozen=True)
class Refusal:
    status: int
    code: str | None
    error: type[HubError]
    message: str | None = None

    def response(self) -> httpx2.Response:
        headers = {"X-Error-Code": self.code, "X-Error-Message": self.message}
        return httpx2.Response(self.status, headers={k: v for k, v in headers.items() if v}, text="no")


# Statuses and codes as huggingface_hub 2.4.0 documents them in hf_raise_for_status.
REFUSALS = [
    Refusal(401, "RepoNotFound", ModelNotFound),
    Refusal(404, "RepoNotFound", ModelNotFound),
    Refusal(401, None, ModelNotFound),
    Refusal(404, None, ModelNotFound),
    Refusal(403, None, ModelNotFound, "Access to this resource is disabled."),
    Refusal(404, "EntryNotFound", ConfigNotFound),
    Refusal(404, "RevisionNotFound", RevisionNotFound),
    Refusal(401, "GatedRepo", ModelGated),
    Refusal(403, "GatedRepo", ModelGated),
    Refusal(401, None, HubUnreachable, "Invalid credentials in Authorization header"),
    Refusal(403, None, HubUnreachable),
    Refusal(400, None, InvalidModelId),
    Refusal(429, None, HubRateLimited),
    Refusal(500, None, HubUnreachable),
    Refusal(502, None, HubUnreachable),
    Refusal(503, None, HubUnreachable),
    Refusal(204, None, HubUnreachable),
    Refusal(304, None, HubUnreachable),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda r: f"{r.status}-{r.code or r.message}")
async def test_each_refusal_has_its_own_error(refusal: Refusal) -> None:
    failure = await failure_of(refusal.response)
    assert type(failure) is refusal.error
    if isinstance(failure, HubUnreachable):
        assert failure.status == refusal.status


async def test_a_gated_model_tells_how_to_get_access() -> None:
    failure = await failure_of(lambda: refused(403, "GatedRepo"))
    assert isinstance(failure, ModelGated)
    assert failure.access_url == f"{ENDPOINT}/{MODEL}"
    assert failure.access_url in str(failure)
    assert "a token was used (HF_TOKEN) whose account has no access" in str(failure)


@pytest.mark.parametrize(
    ("token", "credential", "words"),
    [
        (None, None, "no token was given"),
        (None, callers_own(TOKEN), "a token was used (the header X-Hub-Token)"),
        (TOKEN, None, "a token was used (HF_TOKEN)"),
    ],
)
async def test_a_gated_model_says_whether_a_token_was_used(
    token: str | None, credential: Credential | None, words: str
) -> None:
    hub = FakeHub()

    async def gate(_: httpx2.Request) -> httpx2.Response:
        return refused(403 if token or credential else 401, "GatedRepo")

    hub.faults[""] = gate
    with pytest.raises(ModelGated) as raised:
        await hub.client(token=token).fetch(MODEL, None, credential)
    assert words in str(raised.value)
    assert hide_secrets(str(raised.value)) == str(raised.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"RateLimit": '"api";r=0;t=55', "RateLimit-Policy": '"fixed window";"api";q=500;w=300'}, 55),
        ({"RateLimit": '"api";r=12;t=55', "Retry-After": "7"}, 7),
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": "Fri, 21 Nov 2026 10:00:30 GMT", "Date": "Fri, 21 Nov 2026 10:00:00 GMT"}, 30),
        ({"Retry-After": "Fri, 21 Nov 2026 09:00:00 GMT", "Date": "Fri, 21 Nov 2026 10:00:00 GMT"}, 0),
        ({"Retry-After": "999999"}, 3600),
        ({"Retry-After": "soon"}, 60),
        ({"Retry-After": "9" * 5000}, 60),
        ({"RateLimit": f'"api";r=0;t={"9" * 5000}'}, 60),
        ({}, 60),
    ],
)
async def test_a_rate_limit_says_when_it_ends(headers: dict[str, str], seconds: int) -> None:
    failure = await failure_of(lambda: httpx2.Response(429, headers=headers))
    assert isinstance(failure, HubRateLimited)
    assert failure.retry_after == seconds


@pytest.mark.parametrize("body", [b"[1]", b"{" * 100_000, b'{"errors": 5}', b"\xff", b"null"])
async def test_a_refusals_body_cannot_do_harm(body: bytes) -> None:
    failure = await failure_of(lambda: httpx2.Response(500, content=body))
    assert type(failure) is HubUnreachable


@pytest.mark.parametrize("error", [httpx2.ConnectError, httpx2.ReadError, httpx2.RemoteProtocolError])
async def test_a_broken_connection_is_unreachable(error: type[httpx2.TransportError]) -> None:
    def broken() -> httpx2.Response:
        raise error("broken")

    failure = await failure_of(broken)
    assert isinstance(failure, HubUnreachable)
    assert failure.status is None


@pytest.mark.parametrize("error", [httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.PoolTimeout])
async def test_a_timeout_of_the_connection_is_named(error: type[httpx2.TimeoutException]) -> None:
    def slow() -> httpx2.Response:
        raise error("slow")

    assert type(await failure_of(slow)) is HubTimedOut


@pytest.mark.parametrize("ending", [CONFIG, "/hf_quant_config.json", "/revision/main"])
async def test_a_stall_anywhere_ends_with_the_total_time(ending: str) -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["hf_quant_config.json"] = b"{}"

    async def stall(_: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    hub.faults[ending] = stall
    before = time.monotonic()
    with pytest.raises(HubTimedOut):
        await hub.client(limits=TransferLimits(total_seconds=0.05)).fetch(MODEL)
    assert time.monotonic() - before < 10
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_refused_config_does_not_wait_for_the_rest() -> None:
    hub = hub_with_model()
    hub.repositories[MODEL].files["hf_quant_config.json"] = b"{}"
    hub.play(CONFIG, lambda: refused(404, "RepoNotFound"))

    async def stall(_: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    hub.faults["/hf_quant_config.json"] = stall
    with pytest.raises(ModelNotFound):
        await hub.client(limits=TransferLimits(total_seconds=2)).fetch(MODEL)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_address_that_is_none_is_not_followed() -> None:
    failure = await failure_of(lambda: httpx2.Response(302, headers={"Location": "//hub.test:99999999/"}))
    assert isinstance(failure, HubUnreachable)


async def test_the_connection_is_given_two_seconds_and_each_read_four() -> None:
    hub = hub_with_model()
    await hub.client().fetch(MODEL)
    timeouts = [request.extensions["timeout"] for request in hub.requests]
    assert all(timeout["connect"] == 2 and timeout["read"] == 4 for timeout in timeouts)
    assert TransferLimits().total_seconds == 8


async def test_fifty_megabytes_are_left_where_they_are() -> None:
    body = EndlessBody(50 << 20)
    failure = await failure_of(lambda: httpx2.Response(200, stream=body))
    assert isinstance(failure, ConfigTooLarge)
    assert body.sent <= (16 << 20) + body.chunk


async def test_sixteen_mebibytes_are_still_read() -> None:
    hub = hub_with_model()
    body = b"{}".ljust(16 << 20)
    hub.play(CONFIG, lambda: httpx2.Response(200, content=body))
    assert (await hub.client().fetch(MODEL)).config == {}
    hub.play(CONFIG, lambda: httpx2.Response(200, content=body + b" "))
    with pytest.raises(ConfigTooLarge):
        await hub.client().fetch(MODEL)


async def test_a_compressed_answer_is_never_unfolded() -> None:
    body = EndlessBody(50 << 20)
    failure = await failure_of(
        lambda: httpx2.Response(200, headers={"Content-Encoding": "gzip"}, stream=body)
    )
    assert isinstance(failure, HubUnreachable)
    assert body.sent == 0


@pytest.mark.parametrize("media_type", ["text/html", "text/html; charset=utf-8", "Application/XHTML+XML"])
async def test_a_web_page_is_refused_even_if_it_parses(media_type: str) -> None:
    headers = {"Content-Type": media_type}
    failure = await failure_of(lambda: httpx2.Response(200, headers=headers, content=b"{}"))
    assert type(failure) is ConfigNotJson


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"1",
        b"null",
        b'{"a": 1',
        b"\xff\xfe{}",
        b'{"a": ' + b"9" * 5000 + b"}",
        b"{} {}",
    ],
)
async def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    assert type(await failure_of(lambda: httpx2.Response(200, content=body))) is ConfigNotJson


@pytest.mark.parametrize("levels", [65, 900, 500_000])
async def test_deep_json_is_refused_and_not_recursed_into(levels: int) -> None:
    nested = b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
    failure = await failure_of(lambda: httpx2.Response(200, content=nested))
    assert type(failure) is ConfigTooDeep


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.test/config.json",
        "//evil.test/config.json",
        "http://hub.test/config.json",
        "https://hub.test:8443/config.json",
        "https://hub.test@evil.test/config.json",
        "https://user:word@hub.test/config.json",
        "https://hub.test.evil.test/config.json",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "https://[broken",
    ],
)
async def test_a_redirect_to_another_host_is_not_followed(location: str) -> None:
    hub = hub_with_model()
    hub.play(CONFIG, lambda: httpx2.Response(302, headers={"Location": location}))
    with pytest.raises(HubUnreachable, match="redirected to another host"):
        await hub.client().fetch(MODEL)
    assert {(r.url.scheme, r.url.host, r.url.port) for r in hub.requests} == {("https", "hub.test", None)}


@pytest.mark.parametrize(
    "location",
    [
        "/api/whoami-v2",
        "/api/models/acme/tiny/config.json",
        f"/{MODEL}/resolve/main/../../../../api/whoami-v2",
        f"/{MODEL}/resolve/main/%2e%2e/config.json",
        f"/{MODEL}/resolve/main/README.md",
        f"/{MODEL}/raw/main/config.json",
        "/datasets/acme/resolve/main/config.json",
        "/settings/tokens?next=/config.json",
    ],
)
async def test_a_redirect_to_something_else_of_the_hub_is_not_followed(location: str) -> None:
    hub = hub_with_model()
    hub.play(CONFIG, lambda: httpx2.Response(302, headers={"Location": location}))
    with pytest.raises(HubUnreachable, match="redirected to something other"):
        await hub.client().fetch(MODEL)
    assert len(hub.requests) == 2


async def test_the_hubs_storage_is_read_without_the_token() -> None:
    hub = hub_with_model()

    def stored_or_sent_there() -> httpx2.Response:
        request = hub.requests[-1]
        if request.url.host == "cas-bridge.xethub.hf.co":
            return httpx2.Response(200, json=LLAMA)
        return httpx2.Response(302, headers={"Location": "https://cas-bridge.xethub.hf.co/x/config.json"})

    hub.play(CONFIG, stored_or_sent_there)
    assert (await hub.client().fetch(MODEL)).config == LLAMA
    assert "Authorization" not in hub.requests[-1].headers
    assert all("Authorization" in request.headers for request in hub.requests[:-1])


async def test_a_circle_of_redirects_ends_after_three() -> None:
    hub = hub_with_model()
    hub.play(CONFIG, lambda: httpx2.Response(307, headers={"Location": f"/{MODEL}/resolve/main/config.json"}))
    with pytest.raises(HubUnreachable, match="redirected more than 3 times"):
        await hub.client().fetch(MODEL)
    assert sum(path.endswith(CONFIG) for path in hub.paths()) == 4


async def test_three_redirects_are_followed() -> None:
    hub = hub_with_model()
    hops = iter("123")

    def hop_or_config() -> httpx2.Response:
        hop = next(hops, None)
        if hop is None:
            return httpx2.Response(200, headers={"X-Repo-Commit": COMMIT}, json=LLAMA)
        return httpx2.Response(302, headers={"Location": f"/acme/renamed-{hop}/resolve/main/config.json"})

    hub.play(CONFIG, hop_or_config)
    assert (await hub.client().fetch(MODEL)).config == LLAMA


async def test_no_secret_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    hub = hub_with_model()
    await hub.client().fetch(MODEL)
    hub.play(CONFIG, lambda: refused(403, "GatedRepo", **{"X-HF-Warning": "topic; a server's words"}))
    with pytest.raises(ModelGated):
        await hub.client().fetch(MODEL)
    assert TOKEN not in caplog.text
    assert "a server's words" not in caplog.text
