"""Before olah, a mirror of the Hub that others wrote, which takes the fake Hub for the real one.

It has dependencies of its own, so it runs where `olah-cli` is on the path: `pipx install olah`.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from service.hub.errors import ModelNotFound
from service.hub.hub_client import HubClient
from service.hub.transport.endpoint import Endpoint
from service.hub.transport.transfer import hub_http
from tests.bench.server import free_port
from tests.hub.fake_hub import COMMIT, LLAMA, MODEL
from tests.hub.hub_server import serving
from tests.hub.test_weights import FILES, SHARDS, hub_of

OLAH = shutil.which("olah-cli")
CONFIG = b'{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}'


@contextmanager
def mirror(upstream: int, folder: Path) -> Iterator[str]:
    port = free_port()
    address, above = f"127.0.0.1:{port}", f"127.0.0.1:{upstream}"
    places = {
        "--host": "127.0.0.1",
        "--port": str(port),
        "--hf-scheme": "http",
        "--hf-netloc": above,
        "--hf-lfs-netloc": above,
        "--mirror-netloc": address,
        "--mirror-lfs-netloc": address,
        "--repos-path": str(folder / "repositories"),
        "--log-path": str(folder / "logs"),
    }
    command = [str(OLAH), *(part for place in places.items() for part in place)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            yield f"http://{address}"
        finally:
            process.terminate()


async def until_it_answers(address: str) -> None:
    async with asyncio.timeout(30), httpx2.AsyncClient() as http:
        while True:
            try:
                await http.get(address)
            except httpx2.TransportError:
                await asyncio.sleep(0.2)
            else:
                return


@pytest.mark.skipif(OLAH is None, reason="olah-cli is not on the path")
async def test_a_mirror_is_as_good_as_the_hub(tmp_path: Path) -> None:
    with (
        serving(hub_of({**FILES, "config.json": CONFIG})) as server,
        mirror(server.port, tmp_path) as address,
    ):
        await until_it_answers(address)
        async with hub_http() as http:
            client = HubClient(http, endpoint=Endpoint(address))
            fetched = await client.fetch(MODEL)
            commit, weights = await client.weights(MODEL)
            with pytest.raises(ModelNotFound):
                await client.fetch("acme/none")
            await client.close()
    assert (fetched.config, fetched.revision, commit) == (LLAMA, COMMIT, COMMIT)
    assert (weights.files, weights.read, weights.tensors.total_bytes) == (tuple(SHARDS), 2, 34 + 28 + 32)
