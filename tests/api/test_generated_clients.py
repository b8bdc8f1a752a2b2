"""Clients that common tools generate from the contract read full answers of the service.

`make clients` installs the tools into `.clients` and runs these tests; a tool that is not there is skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.api.generated_clients import answers

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "openapi.yaml"
TOOLS = Path(os.environ.get("CLIENT_TOOLS", ROOT / ".clients"))
"""Folder with an environment of Python and with `node_modules`."""
NODE_TOOLS = TOOLS / "node_modules"
READER = """
import importlib, json, sys
sys.path.insert(0, ".")
models = importlib.import_module("generated.models")
for name, answer in json.load(open("answers.json")):
    read = getattr(models, name).from_dict(answer).to_dict()
    assert read == answer, name
"""
ASKER = """
import importlib, json, sys
sys.path.insert(0, ".")
models = importlib.import_module("generated.models")
for name, body in json.load(open("bodies.json")):
    sent = getattr(models, name).from_dict(body).to_dict()
    assert {key: sent.get(key) for key in body} == body, name
"""
ENTRIES = ["vllm", "llama.cpp", {"name": "sglang", "version": "0.5.23"}, "tensorrt-llm"]
BODIES = [("ComparisonBody", {"model": "google/gemma-4-31B-it", "gpus": ["l40s"], "engines": ENTRIES})]
"""Bodies as the documents write them, each with its schema."""
SECONDS = 300
PROJECT = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "skipLibCheck": True,
        "target": "es2022",
        "module": "esnext",
        "moduleResolution": "bundler",
        "types": [],
    },
    "files": ["answers.ts"],
}


def _run(words: list[str | Path], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(  # noqa: S603 - the words are this file's own
        words,
        cwd=folder,
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def _tool(name: str) -> Path:
    program = NODE_TOOLS / ".bin" / name
    if shutil.which("node") is None or not program.exists():
        pytest.skip(f"{name} is not installed in {NODE_TOOLS}")
    return program


def test_openapi_python_client_reads_every_answer(tmp_path: Path, client: TestClient) -> None:
    python = TOOLS / "bin" / "python"
    if not (python.parent / "openapi-python-client").exists():
        pytest.skip(f"openapi-python-client is not installed in {TOOLS}")
    words: list[str | Path] = [
        "-m",
        "openapi_python_client",
        "generate",
        "--meta",
        "none",
        "--path",
        CONTRACT,
    ]
    said = _run([python, *words, "--output-path", "generated"], tmp_path)
    assert "warning" not in said.lower(), said
    (tmp_path / "answers.json").write_text(json.dumps(list(answers(client))), "utf-8")
    _run([python, "-c", READER], tmp_path)
    (tmp_path / "bodies.json").write_text(json.dumps(BODIES), "utf-8")
    _run([python, "-c", ASKER], tmp_path)
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "usage.md").read_text("utf-8"), re.DOTALL
    )
    checked = f"{example}\nassert body.to_dict()['engines'] == ['vllm', 'llama.cpp']"
    _run([python, "-c", f"import sys\nsys.path.insert(0, '.')\n{checked}"], tmp_path)
    operations = {path.stem for path in (tmp_path / "generated" / "api").rglob("*.py")} - {"__init__"}
    documented = set(re.findall(r"operationId: (\w+)", CONTRACT.read_text("utf-8")))
    assert operations == documented


@pytest.mark.parametrize(
    ("generator", "words", "imported", "typed"),
    [
        (
            "openapi-typescript",
            [CONTRACT, "-o", "client.d.ts"],
            'import type { components } from "./client";',
            'components["schemas"]["{}"]',
        ),
        (
            "openapi-ts",
            ["-i", CONTRACT, "-o", "client"],
            'import type * as client from "./client";',
            "client.{}",
        ),
    ],
)
def test_typescript_accepts_every_answer(  # noqa: PLR0917 - the parts of one generator
    generator: str, words: list[str | Path], imported: str, typed: str, tmp_path: Path, client: TestClient
) -> None:
    program, compiler = _tool(generator), _tool("tsc")
    (tmp_path / "node_modules").symlink_to(NODE_TOOLS)
    said = _run([program, *words], tmp_path)
    assert "warn" not in said.lower(), said
    lines = [imported]
    for number, (name, answer) in enumerate(answers(client)):
        lines.append(f"export const answer{number}: {typed.format(name)} = {json.dumps(answer)};")
    for number, (name, body) in enumerate(BODIES):
        lines.append(f"export const body{number}: {typed.format(name)} = {json.dumps(body)};")
    lines.append(
        f"export const command = (plan: {typed.format('PlanAnswer')}): string | undefined => "
        "plan.plans[0]?.recommended?.command;"
    )
    lines.append(
        f"export const weights = (plan: {typed.format('PlanAnswer')}): number | undefined => "
        "plan.plans[0]?.recommended?.memory?.weights.bytes;"
    )
    (tmp_path / "answers.ts").write_text("\n".join(lines), "utf-8")
    (tmp_path / "tsconfig.json").write_text(json.dumps(PROJECT), "utf-8")
    _run([compiler, "-p", "."], tmp_path)
