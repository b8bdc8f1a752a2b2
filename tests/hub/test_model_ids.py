"""Hostile ids and revisions never leave the process; what leaves stays in its place."""

import httpx2
import pytest
from huggingface_hub.constants import REPO_TYPES_URL_PREFIXES
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from hypothesis import given
from hypothesis import strategies as st

from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import (
    ConfigNotFound,
    HubError,
    InvalidModelId,
    InvalidRevision,
)
from service.hub.model_files.allowed_files import is_allowed
from service.hub.model_files.model_ids import check_model_id, check_revision, is_path
from service.hub.model_source import ModelSource
from service.hub.transport.credential import Credential
from tests.hub.fake_hub import (
    ENDPOINT,
    MODEL,
    FakeHub,
    Repository,
)

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
    "127.0.0.1/tiny",
    "127.0.0.1",
    "169.254.169.254/latest",
    "0x7f.0.0.1/tiny",
    "0177.0.0.1/tiny",
    "127.1/tiny",
    "LocalHost/tiny",
    "localhost:8080/tiny",
    "[::1]/tiny",
    "::ffff:127.0.0.1/tiny",
    "acme/[::1]",
    "file:///etc/passwd",
    "ftp://evil.test/tiny",
    "javascript:alert(1)/x",
    "$(id)/tiny",
    "`id`/tiny",
    "acme/{{7*7}}",
    "acme/${HOME}",
    "acme/'; DROP TABLE entries; --",
    "acme/tiny'",
    'acme/"tiny"',
    "acme/<script>",
    "acme/tiny%00",
    "acme/tiny%0d%0aX: y",
    "%2e%2e/%2e%2e",
    "acme%252Ftiny",
    "..%c0%af..%c0%afetc",
    "acme/..\\..\\etc",
    "C:\\windows\\system32",
    "\\\\evil.test\\share",
    "acme/tiny/",
    "acme/./tiny",
    "./acme/tiny",
    "acme/tiny/resolve/main/config.json",
    "models/acme/tiny",
    "acme/tiny:main",
    "acme/tiny@main",
    "acme/tiny!",
    "acme/tiny*",
    "acme/*",
    "*",
    "acme/ti ny",
    "acme/ti\tny",
    "acme/ti\x0bny",
    "acme/ti\x7fny",
    "acme/\u200btiny",
    "acme/ti\u0301ny",
    "\uff41cme/tiny",
    "acme\u2215tiny",
    "acme\u29f8tiny",
    "\u0430cme/tiny",
    "acme/tiny\u2028",
    "acme/\U0001f600",
    "\ufeffacme/tiny",
    "acme/\u202etynit",
    "acme/" + "." * 90,
    "-/-",
    "_/..",
    "...",
    "acme/tiny..",
    "a/b/c/d",
    "/" * 50,
    "acme/" + "%2e" * 20,
]
HOSTILE_FILES = [
    "",
    ".",
    "..",
    "../config.json",
    "../../../../api/whoami-v2",
    "/etc/passwd",
    "..%2f..%2fapi%2fwhoami-v2",
    "%2e%2e/model.safetensors",
    "a/../../model.safetensors",
    "a/b/model.gguf",
    "..\\model.safetensors",
    "model.safetensors\x00",
    "model.safetensors\n",
    "model.safetensors?x",
    "model.safetensors#x",
    "model.safetensors/..",
    "model..safetensors.safetensors/../x",
    "mo..del.safetensors",
    ".safetensors",
    "-model.safetensors",
    "http://evil.test/model.safetensors",
    "//evil.test/model.safetensors",
    "169.254.169.254/model.safetensors",
    "m\u043edel.safetensors",
    "model.safetensors\u202e",
    "\uff0e\uff0e/model.safetensors",
    "model.bin",
    "model.py",
    "README.md",
    "tokenizer.json",
    ".git/config",
    "x" * 300 + ".safetensors",
    "model .safetensors",
    "model;x.safetensors",
    "model:x.safetensors",
    "model@x.safetensors",
    "~/.cache/huggingface/token",
    "../token.gguf",
    "./model.gguf",
    "a//model.gguf",
    "..a/model.gguf",
    "a/..model.gguf",
    "a/model.gguf/",
    "a\\model.gguf",
    "model.gguf\r\nX: y",
    "model.GGUF",
    "model.safetensors.index.json/..",
    "CONFIG.JSON",
    "hf_quant_config.json.bak",
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
    "a/../../../../x",
    "refs/../../x",
    "main/..",
    "main..",
    "....//....//x",
    "%2e%2e%2f%2e%2e",
    "%00",
    "http://evil.test",
    "//evil.test",
    "file:///etc/passwd",
    "~/x",
    "$(id)",
    "`id`",
    "main'--",
    'main"',
    "main;x",
    "main:x",
    "main@x",
    "main x",
    "main\tx",
    "main\r\nHost: evil.test",
    "\u202emain",
    "ma\u200bin",
    "main\uff0fx",
    "\u2215",
    "main*",
    "{main}",
    "[::1]",
    "main|x",
    "main&x=1",
    "main=1",
    "main+x",
    "main,x",
    "(main)",
    "<main>",
    "^main",
    "_main",
    "/",
    ".",
    "-",
    "main\\..\\x",
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


@pytest.mark.parametrize("file", HOSTILE_FILES)
async def test_a_hostile_name_of_a_file_causes_no_request(file: str) -> None:
    hub = FakeHub({MODEL: Repository({"config.json": b"{}", file: b"{}"})})
    await hub.client().fetch(MODEL)
    assert all("config.json" in path or path.startswith("/api/models/acme") for path in hub.paths())
    requested = len(hub.requests)
    with pytest.raises(ConfigNotFound):
        await hub.repositories_of_a_client().part(Credential(), MODEL, "0" * 40, file, (0, 7))
    assert len(hub.requests) == requested


def test_two_hundred_names_are_hostile() -> None:
    assert len({*HOSTILE_IDS, *HOSTILE_REVISIONS, *HOSTILE_FILES}) >= 200


@pytest.mark.parametrize("file", ["model.safetensors", "model-00001-of-00163.safetensors", "Q4_K_M/x-1.gguf"])
def test_what_weights_are_called_is_allowed(file: str) -> None:
    assert is_allowed(file)


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


# Without digits: the address of a machine, such as 9.9, is refused here and not by the library.
IDS = st.text(alphabet="aB-_./\n é", max_size=12) | st.from_regex(r"[a-z_.-]{90,100}(\.git)?", fullmatch=True)


@given(IDS)
def test_the_rules_are_those_of_the_hubs_own_library(model_id: str) -> None:
    try:
        validate_repo_id(model_id)
    except HFValidationError:
        with pytest.raises(InvalidModelId):
            check_model_id(model_id)
        return
    if not is_path(model_id):
        check_model_id(model_id)


@pytest.mark.parametrize("prefix", ["api/", *REPO_TYPES_URL_PREFIXES.values()])
def test_reserved_names_are_those_of_the_hubs_own_library(prefix: str) -> None:
    with pytest.raises(InvalidModelId, match="reserves"):
        check_model_id(f"{prefix}name")
