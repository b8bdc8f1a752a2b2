"""A config that says its weights are quantized, but not how: the engine builds the model unquantized."""

import json
from pathlib import Path

import pytest

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.hub.bundled.snapshot import BundledSnapshot
from tests.api.test_cli import _run

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 5120,
    "intermediate_size": 25600,
    "num_hidden_layers": 64,
    "head_dim": 128,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
DOUBT = "This copy of the config may lack a part of the original."


@pytest.mark.parametrize("gpus", ["h100", "l4,rtx-4090-24gb"], ids=["one", "the same refusal on both"])
@pytest.mark.parametrize(
    ("section", "is_doubted"), [({"bits": 4, "group_size": 64}, True), (None, False)], ids=["mlx", "plain"]
)
def test_a_refusal_says_the_doubt(tmp_path: Path, section: object, gpus: str, *, is_doubted: bool) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG if section is None else {**CONFIG, "quantization_config": section}))
    code, out, err = _run("check", "m", "--config", str(file), "--gpu", gpus, "--format", "table")

    assert code == 3, err
    assert (DOUBT in " ".join(out.split())) is is_doubted


def test_only_checkpoints_that_are_read_as_quantized_are_advised() -> None:
    snapshot = BundledSnapshot()
    advised = 0
    for model in ("Qwen/Qwen3-32B", "google/gemma-4-31B-it", "Qwen/Qwen3-235B-A22B"):
        _, out, _ = _run("check", model, "--gpu", "l4")
        words = json.dumps(json.loads(out)["plans"])
        for name in (each for each in snapshot.ids() if each != model and each in words):
            fetched = snapshot.get(name)
            assert fetched is not None
            document = {"quantization_config": fetched.quantization_config, **fetched.config}
            assert read_architecture(read_document(document)).quantization is not None, name
            advised += 1
    assert advised
