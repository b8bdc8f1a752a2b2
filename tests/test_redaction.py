"""Secrets in every shape in which logs, errors and requests hold them; none of these is a real one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.hub.errors import ModelGated
from service.redaction import _SECRETS, HIDDEN, hide_secrets
from service.startup_log.text.lines import clean

SECRET = "Zq7xW2vTn9Lk4Rb8"  # noqa: S105 - a made-up secret whose way is followed
SHAPES = [
    # Dictionaries as Python prints them, JSON, and JSON inside of JSON.
    "{'Authorization': 'Bearer Zq7xW2vTn9Lk4Rb8'}",
    '{"Authorization": "Bearer Zq7xW2vTn9Lk4Rb8"}',
    r"{\"Authorization\": \"Bearer Zq7xW2vTn9Lk4Rb8\"}",
    r'"{\\\"authorization\\\": \\\"Bearer Zq7xW2vTn9Lk4Rb8\\\"}"',
    "{'authorization': b'Bearer Zq7xW2vTn9Lk4Rb8'}",
    "[(b'Authorization', b'Basic Zq7xW2vTn9Lk4Rb8')]",
    "('authorization', 'Bearer Zq7xW2vTn9Lk4Rb8')",
    "{'api_key': ['first-one', 'Zq7xW2vTn9Lk4Rb8']}",
    "Namespace(api_key=['Zq7xW2vTn9Lk4Rb8'], model='m')",
    "hf_token='Zq7xW2vTn9Lk4Rb8'",
    '"api_key": "Zq7xW2vTn9Lk4Rb8"',
    '"api_key":"Zq7xW2vTn9Lk4Rb8"',
    '"password": "with spaces, Zq7xW2vTn9Lk4Rb8"',
    "'passphrase': 'Zq7xW2vTn9Lk4Rb8'",
    '"auth": "Zq7xW2vTn9Lk4Rb8"',
    "'X-Hub-Token': 'Zq7xW2vTn9Lk4Rb8'",
    "{'x-api-key': 'Zq7xW2vTn9Lk4Rb8'}",
    # Headers.
    "Authorization: Bearer Zq7xW2vTn9Lk4Rb8",
    "authorization=Bearer Zq7xW2vTn9Lk4Rb8",
    "Authorization: Basic Zq7xW2vTn9Lk4Rb8==",
    "X-Hub-Token: Zq7xW2vTn9Lk4Rb8",
    "Bearer Zq7xW2vTn9Lk4Rb8",
    "Cookie: first=1; session=Zq7xW2vTn9Lk4Rb8; last=2",
    "Set-Cookie: session=Zq7xW2vTn9Lk4Rb8; Path=/",
    # A shell.
    "HF_TOKEN=Zq7xW2vTn9Lk4Rb8 vllm serve m",
    "export HUGGING_FACE_HUB_TOKEN='Zq7xW2vTn9Lk4Rb8'",
    'docker run -e "HF_TOKEN=Zq7xW2vTn9Lk4Rb8" image',
    "docker run --env HUGGING_FACE_HUB_TOKEN=Zq7xW2vTn9Lk4Rb8",
    "VLLM_API_KEY=Zq7xW2vTn9Lk4Rb8",
    "LICENSE_KEY=Zq7xW2vTn9Lk4Rb8",
    "vllm serve m --api-key Zq7xW2vTn9Lk4Rb8 --port 80",
    "vllm serve m --api-key=Zq7xW2vTn9Lk4Rb8",
    "vllm serve m --api-key 'Zq7xW2vTn9Lk4Rb8'",
    'vllm serve m --api_key="Zq7xW2vTn9Lk4Rb8"',
    "unrecognized arguments: --api-key first Zq7xW2vTn9Lk4Rb8",
    "vllm serve m --hf-token Zq7xW2vTn9Lk4Rb8",
    "vllm serve m --hf-token=Zq7xW2vTn9Lk4Rb8",
    # What services issue, wherever it stands.
    "not found: hf_Zq7xW2vTn9Lk4Rb8",
    "key sk-Zq7xW2vTn9Lk4Rb8",
    "sk-proj-Zq7xW2vTn9Lk4Rb8",
    "nvapi-Zq7xW2vTn9Lk4Rb8",
    "ghp_Zq7xW2vTn9Lk4Rb8",
    "glpat-Zq7xW2vTn9Lk4Rb8",
    "dry_0123_Zq7xW2vTn9Lk4Rb8",
    "AIzaSyD0123456789012345Zq7xW2vTn9Lk4Rb8",
    "eyJhbGciOiJIUzI1NiJ9.Zq7xW2vTn9Lk4Rb8.abc",
    # Addresses.
    "https://user:Zq7xW2vTn9Lk4Rb8@host/model",
    "postgresql://dry:p@Zq7xW2vTn9Lk4Rb8@host/db",
    "https://account.blob.test/x?sv=1&sig=Zq7xW2vTn9Lk4Rb8",
    "AccountName=me;AccountKey=Zq7xW2vTn9Lk4Rb8;",
    "-----BEGIN RSA PRIVATE KEY----- Zq7xW2vTn9Lk4Rb8",
    "redis://:Zq7xW2vTn9Lk4Rb8@host:6379/0",
    "mongodb+srv://user:Zq7xW2vTn9Lk4Rb8@cluster.test/db",
    "https://bucket.s3.test/x?X-Amz-Credential=me&X-Amz-Signature=Zq7xW2vTn9Lk4Rb8",
    "https://account.blob.test/x?sv=1&se=2&sr=b&sig=Zq7xW2vTn9Lk4Rb8&sp=r",
    # Clouds.
    "aws_secret_access_key = Zq7xW2vTn9Lk4Rb8",
    "AWS_SESSION_TOKEN=Zq7xW2vTn9Lk4Rb8",
    '"SecretAccessKey": "Zq7xW2vTn9Lk4Rb8"',
    "x-amz-security-token: Zq7xW2vTn9Lk4Rb8",
    "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=Zq7xW2vTn9Lk4Rb8==;EndpointSuffix=x",
    "SharedAccessSignature=Zq7xW2vTn9Lk4Rb8",
    '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nZq7xW2vTn9Lk4Rb8\\n"}',
    '"client_secret": "Zq7xW2vTn9Lk4Rb8"',
    "ya29.a0ARrdaMZq7xW2vTn9Lk4Rb8Zq7xW2vTn9Lk4Rb8",
    "npm_Zq7xW2vTn9Lk4Rb8Zq7xW2vTn9Lk4Rb8",
    "pypi-AgEIcHlwaZq7xW2vTn9Lk4Rb8",
    # Services and tools.
    "WANDB_API_KEY: Zq7xW2vTn9Lk4Rb8",
    "PGPASSWORD=Zq7xW2vTn9Lk4Rb8 psql",
    "curl -H 'Authorization: Bearer Zq7xW2vTn9Lk4Rb8' http://host",
    "hf auth login --token Zq7xW2vTn9Lk4Rb8",
    "pwd=Zq7xW2vTn9Lk4Rb8",
    "ENCRYPTION_KEY=Zq7xW2vTn9Lk4Rb8",
    "https://hooks.slack.com/services/T0/B0/Zq7xW2vTn9Lk4Rb8",
    "xoxb-1234-Zq7xW2vTn9Lk4Rb8",
    'password="a\'b Zq7xW2vTn9Lk4Rb8"',
    "password\uff1dZq7xW2vTn9Lk4Rb8",
]


@pytest.mark.parametrize("text", SHAPES)
def test_a_secret_is_hidden(text: str) -> None:
    assert SECRET in text
    for hidden in (hide_secrets(text), clean(text), hide_secrets(f"ValueError: {text} and on")):
        assert SECRET not in hidden
        assert HIDDEN in hidden


@pytest.mark.parametrize(
    "text",
    [
        "GPU KV cache size: 25,200 tokens",
        "Maximum concurrency for 131,072 tokens per request: 1.87x",
        "this needs a token that the service knows",
        "this needs a token for: operator, reader",
        "non-default args: {'model': 'org/name', 'max_num_batched_tokens': 2048, 'tokenizer_mode': 'auto'}",
        "tokenizer='google/gemma-2-27b-it', skip_tokenizer_init=False, tokenizer_revision=None",
        "'hf_token': None, 'api_key': None, 'model': 'm'",
        "num_key_value_heads, key_value_share and max_tokens are fine",
        "the basic algorithm; GET https://huggingface.co/org/name@main",
        "num_speculative_tokens must be given; the nearest are num_speculative_tokens",
        "vllm serve org/name --max-num-seqs 8 --served-model-name name",
        "the Hub does not accept the token that was sent for a/b",
        # vllm-project/vllm#57680: how long a prompt is.
        "a ~122-token prompt, and a 23-token answer",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


def test_the_model_beside_a_key_stays() -> None:
    assert clean("vllm serve --api-key abcdef org/name") == "vllm serve --api-key *** org/name"


@pytest.mark.parametrize("tail", ["", "'", '"', "\\", ")", ", 'model': 'm'}"])
def test_a_secret_that_is_cut_off_is_hidden(tail: str) -> None:
    assert SECRET not in hide_secrets(f"{{'Authorization': 'Bearer {SECRET}{tail}")


PIECES = st.one_of(
    st.sampled_from([piece for shape in SHAPES for piece in shape.split(" ")]),
    st.sampled_from(["'", '"', " ", "=", ": ", "[", "(", ",", "--", "://", "@", "_key", " is ", "\uff1d"]),
    st.text(max_size=6),
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_text_without_what_a_form_needs_has_no_secret_of_that_form(text: str) -> None:
    lowered = text.lower()
    for secret in _SECRETS:
        if not any(each in lowered for each in secret.needs):
            assert re.search(secret.pattern, text) is None


def test_what_a_gated_model_asks_for_is_left_whole() -> None:
    words = str(ModelGated("a/b", "https://huggingface.co/a/b"))
    assert hide_secrets(words) == words
