"""``hf_quant_config`` beside ``config``, and configs of megabytes."""

import json
import time

from starlette.testclient import TestClient

from tests.api.plan_bodies import LLAMA_CONFIG

H100 = {"gpus": ["h100-sxm-80gb"], "engine": {"version": "0.32.0"}, "serve": {"tensor_parallel_size": 1}}
FP8 = {
    "producer": {"name": "modelopt"},
    "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]},
}


def _weights(client: TestClient, **body: object) -> int:
    reply = client.post("/plan", json={"config": LLAMA_CONFIG, **H100, **body})
    assert reply.status_code == 200, reply.text
    budget = reply.json()["plans"][0]["recommended"]["memory"]
    return int(budget["weights"]["bytes"])


def test_modelopts_file_beside_the_config_quantizes_the_weights(client: TestClient) -> None:
    # A Llama 3.1 8B has 32 layers of 218,103,808 elements: a byte each instead of two saves 6.5 GiB.
    saved = _weights(client) - _weights(client, hf_quant_config=FP8)

    assert abs(saved - 32 * 218_103_808) < 0.02 * saved


def test_a_fault_in_the_file_names_the_file(client: TestClient) -> None:
    wrong = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "INT3"}}

    reply = client.post("/plan", json={"config": LLAMA_CONFIG, "hf_quant_config": wrong, **H100})

    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/hf_quant_config/quantization/quant_algo"


def test_the_file_alone_is_refused(client: TestClient) -> None:
    reply = client.post("/plan", json={"model": "meta-llama/Llama-3.1-8B", "hf_quant_config": FP8, **H100})

    assert reply.status_code == 422
    assert reply.json()["errors"][0]["pointer"] == "/hf_quant_config"


def test_a_list_of_excluded_modules_of_megabytes_is_read_in_time(client: TestClient) -> None:
    """nvidia's mixtures of experts exclude each expert of each layer by name: 3 MB and more."""
    excluded = [f"model.layers.{i}.mlp.experts.{e}.w_{'x' * 60}" for i in range(120) for e in range(1000)]
    quantization = FP8["quantization"] | {"exclude_modules": ["lm_head", *excluded]}  # type: ignore[operator]
    body = {"config": LLAMA_CONFIG, "hf_quant_config": FP8 | {"quantization": quantization}, **H100}
    text = json.dumps(body)
    assert len(text) > 10 << 20

    started = time.process_time()
    reply = client.post("/plan", content=text, headers={"Content-Type": "application/json"})

    assert reply.status_code == 200
    assert time.process_time() - started < 5
