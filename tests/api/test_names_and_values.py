"""What a newcomer mistypes is answered with what is valid at that place."""

import json
import re
from typing import Any

import httpx2
import pytest
import yaml
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.application.problems.known_names import meant_in_body, moved_in_body
from service.application.schemas.probes.probe import ProbeBody
from service.application.schemas.requests.plan_body import PlanBody
from service.cli.exit_codes import ExitCode
from service.cli.main import cli
from service.cli.probe_client import problem
from tests.api.plan_bodies import GEMMA, with_serve


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"gpux": "H100"}, "the nearest name is gpus"),
        ({"tensor_parallel_size": 2}, "it belongs in `serve`"),
        ({"version": "0.19.0"}, "it belongs in `engine`"),
        ({"prompt_tokens": 5}, "it belongs in `workload`"),
        (
            {"tensor_paralel_size": 2},
            "the nearest name is tensor_parallel_size, which belongs in `serve`",
        ),
    ],
)
def test_a_name_at_the_wrong_place_has_advice(wrong: Any, advice: str, client: TestClient) -> None:  # noqa: ANN401
    (name,) = wrong
    found = client.post("/v1/plan", json={**GEMMA, **wrong}).json()["errors"]
    assert found == [{"pointer": f"/{name}", "detail": f"is not known; {advice}"}]


def test_a_probe_says_where_in_its_plan_a_name_belongs() -> None:
    assert meant_in_body(ProbeBody, (), "gpu") == "it belongs in `plan` as `gpus`"
    assert meant_in_body(ProbeBody, (), "tensor_parallel_size") == "it belongs in `plan.serve`"
    assert meant_in_body(ProbeBody, ("plan",), "gpu") == "use `gpus`"
    assert moved_in_body(ProbeBody, ("plan",), "dtype") == "it belongs in `plan.serve`"


def test_no_name_is_advised_that_is_not_valid_at_its_place() -> None:
    """Every name of the body itself would be accepted there, so none of them is advised as another one."""
    for name in ("memory", "id", "gpuss", "modell", "workloads"):
        advice = meant_in_body(PlanBody, (), name)
        near = advice.removeprefix("the nearest name is ")
        assert not advice or near in PlanBody.model_fields or "belongs" in advice


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ({"gpu": "H100,l4:2"}, {"gpus": ["H100", "l4:2"]}),
        ({"engine_version": "0.20.2"}, {"engine": {"version": "0.20.2"}}),
        ({"compare": "0.20.2,0.21.0"}, {"engine": {"versions": ["0.20.2", "0.21.0"]}}),
        ({"patch": "vllm#40391"}, {"engine": {"patches": ["vllm#40391"]}}),
        ({"price": "l4-24gb=0.7"}, {"prices": [{"gpu": "l4-24gb", "usd_per_gpu_hour": 0.7}]}),
    ],
)
def test_names_of_a_query_and_of_a_body_are_taken_in_both(
    query: dict[str, str], body: dict[str, Any], client: TestClient
) -> None:
    asked: dict[str, Any] = {"model": "Qwen/Qwen3-8B", **({} if "gpu" in query else {"gpu": "l4"})}
    ((name, text),) = query.items()
    called = next(iter(body.values()))
    last = name if name in {"gpu", "price"} else next(iter(called))
    expected = client.get("/v1/plan", params={**asked, **query})
    in_query = {"gpu": "gpus", "price": "prices"}.get(last, last)

    assert expected.status_code == 200
    assert client.get("/v1/plan", params={**asked, in_query: text}).content == expected.content
    assert client.post("/v1/plan", json={**asked, **body}).content == expected.content
    assert client.post("/v1/plan", json={**asked, name: text}).content == expected.content


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_thing_is_given_by_one_of_its_names(method: str, client: TestClient) -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu": "l4", "gpus": ["h100"]}
    sent: dict[str, Any] = {"params": asked} if method == "GET" else {"json": asked}
    found = client.request(method, "/v1/plan", **sent)
    assert found.status_code == 422
    assert found.json()["errors"][0]["detail"] == "`gpu` and `gpus` are the same: give one of them"


@pytest.mark.parametrize(("given", "meant"), [("gpuss", "gpu"), ("engineversion", "engine_version")])
def test_an_unknown_name_of_a_query_has_advice(given: str, meant: str, client: TestClient) -> None:
    found = client.get("/v1/plan", params={"model": GEMMA["model"], given: "H100"}).json()
    assert found["errors"] == [{"pointer": f"/{given}", "detail": f"is not known; use `{meant}`"}]


def test_all_wrong_members_of_serve_are_named(client: TestClient) -> None:
    body = with_serve(GEMMA, tensor_paralel_size=2, gpu_memory_utilization=95, max_num_seqs=0)
    found = client.post("/v1/plan", json=body).json()
    assert {each["pointer"] for each in found["errors"]} == {
        "/serve/tensor_paralel_size",
        "/serve/gpu_memory_utilization",
        "/serve/max_num_seqs",
    }


def test_all_wrong_values_of_flags_are_named(client: TestClient) -> None:
    body = with_serve(GEMMA, dtype="bf16", kv_cache_dtype="fp9", quantization="awqq")
    found = client.post("/v1/plan", json=body)
    assert found.status_code == 422
    assert [each["pointer"] for each in found.json()["errors"]] == [
        "/serve/dtype",
        "/serve/quantization",
        "/serve/kv_cache_dtype",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("awqq", "; nearest of {}: awq"),
        ("zzz", "; none of {} is spelt alike; `dryserve engines values "),
    ],
)
def test_of_many_values_the_nearest_are_named(client: TestClient, given: str, said: str) -> None:
    found = client.post("/v1/plan", json=with_serve(GEMMA, quantization=given)).json()
    words = re.sub(r"\b\d+\b", "{}", found["detail"])

    assert said in words
    assert "deepspeedfp" not in words


def test_a_dtype_is_one_of_the_engines_words(client: TestClient) -> None:
    """vLLM 0.10.2 to 0.33.0, config/model.py ModelDType."""
    found = client.post("/v1/plan", json=with_serve(GEMMA, dtype="bf16")).json()
    assert found["type"] == "/problems/unknown-flag-value"
    assert found["detail"].endswith("choices: auto, half, float16, bfloat16, float, float32")
    for dtype in ("auto", "half", "float16", "bfloat16", "float", "float32"):
        assert client.post("/v1/plan", json=with_serve(GEMMA, dtype=dtype)).status_code == 200


def test_an_unknown_gpu_comes_with_the_lists(client: TestClient) -> None:
    found = client.post("/v1/plan", json={**GEMMA, "gpus": ["H300"]}).json()
    assert "`dryserve gpus list`" in found["detail"]
    assert "GET /v1/gpus" in found["detail"]


def test_a_plain_checkpoint_is_not_awq(client: TestClient) -> None:
    body = {**with_serve(GEMMA, quantization="awq"), "search": False}
    (plan,) = client.post("/v1/plan", json=body).json()["plans"]
    error = plan["nearest_refused"]["error"]
    assert error["message"] == "VllmConfig: Cannot find the config file for awq"
    assert "not stored as awq" in error["detail"]
    assert "Choose a checkpoint" in error["detail"]


def test_a_failure_of_the_service_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    request = httpx2.Request("POST", "http://127.0.0.1/probes")
    words = {"title": "The service failed", "detail": "report it", "instance": "urn:dryserve:request:7"}
    failed = problem(httpx2.Response(500, json=words, request=request))
    assert failed.exit_code == ExitCode.SERVICE_FAILED
    assert "urn:dryserve:request:7" in capsys.readouterr().err
    assert problem(httpx2.Response(422, json=words, request=request)).exit_code == ExitCode.BAD_INPUT


def manifest(product: str, gpus: int = 2) -> str:
    container = {
        "name": "vllm",
        "image": "vllm/vllm-openai:v0.19.0",
        "args": ["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size", "2"],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    pod = {"nodeSelector": {"nvidia.com/gpu.product": product}, "containers": [container]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
        }
    )


def test_a_manifest_names_its_gpu(client: TestClient) -> None:
    """NVIDIA's GPU feature discovery writes the driver's name with hyphens for spaces."""
    found = client.post("/v1/plan", json={"command": manifest("NVIDIA-H100-80GB-HBM3")}).json()
    assert [each["gpu"]["id"] for each in found["plans"]] == ["h100-sxm-80gb"]
    assert any("2 x h100-sxm-80gb" in note for note in found["command"]["notes"])


def test_shares_of_a_gpu_are_no_count_of_gpus(client: TestClient) -> None:
    """NVIDIA's device plugin: with time slicing the product ends with -SHARED, and resources are shares."""
    found = client.post("/v1/plan", json={"command": manifest("NVIDIA-L40S-SHARED", 4)}).json()
    assert [each["gpu"]["id"] for each in found["plans"]] == ["l40s-48gb"]
    assert any("Planned for l40s-48gb" in note for note in found["command"]["notes"])


def test_more_ranks_than_gpus_of_a_manifest_still_have_an_answer(client: TestClient) -> None:
    found = client.post("/v1/plan", json={"command": manifest("NVIDIA-L40S", 1)})
    assert found.status_code == 200
    assert [each["gpu"]["id"] for each in found.json()["plans"]] == ["l40s-48gb"]


def test_gpus_of_a_request_win_over_a_manifest(client: TestClient) -> None:
    body = {"command": manifest("NVIDIA-H100-80GB-HBM3"), "gpus": ["l40s-48gb"]}
    found = client.post("/v1/plan", json=body).json()
    assert [each["gpu"]["id"] for each in found["plans"]] == ["l40s-48gb"]


@pytest.mark.parametrize("product", ["NVIDIA-A100", "Made-Up-9000"])
def test_a_gpu_of_a_manifest_that_is_not_clear_is_noted(product: str, client: TestClient) -> None:
    found = client.post("/v1/plan", json={"command": manifest(product)}).json()
    assert len(found["plans"]) > 1
    assert any("use --gpu" in note for note in found["command"]["notes"])


def test_a_job_is_created_and_not_applied() -> None:
    """Kubernetes: a name is made of generateName only when an object is created."""
    words = ["manifest", "job", "--server", "http://a", "--image", "b"]
    text = CliRunner().invoke(cli, words).stdout
    assert text.startswith("# For `kubectl create -f -`")
    assert yaml.safe_load(text)["metadata"] == {"generateName": "dryserve-probe-"}
    assert "Secret dryserve-worker" in text


def test_short_names_of_flags_are_taken_outside_a_command() -> None:
    asked = ["check", "Qwen/Qwen3-8B", "--gpu", "l4-24gb", "--format", "command"]
    short = CliRunner().invoke(cli, [*asked, "-tp", "2", "-q", "fp8"])
    long = CliRunner().invoke(cli, [*asked, "--tensor-parallel-size", "2", "--quantization", "fp8"])
    assert (short.exit_code, short.output) == (long.exit_code, long.output)
    assert "--tensor-parallel-size 2" in short.output


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--kv-cache-dtype fp9", ExitCode.FAILED),
        ("--attention-backend FLASH", ExitCode.FAILED),
        ("--enable-auto-tool-choice --tool-call-parser hermis", ExitCode.FAILED),
        ("--enable-reasoning", ExitCode.FAILED),
        ("--max-model-len abc", ExitCode.FAILED),
    ],
)
def test_a_command_that_the_engine_refuses_fails_as_a_start_does(command: str, code: ExitCode) -> None:
    words = ["check", "--gpu", "l4", "--", "vllm", "serve", "Qwen/Qwen3-8B", *command.split()]
    assert CliRunner().invoke(cli, words).exit_code == code


def test_a_mistyped_option_is_bad_input_and_named() -> None:
    asked = ["check", "Qwen/Qwen3-8B", "--gpu", "l4"]
    no_start = CliRunner().invoke(cli, ["check", "--gpu", "l4", "--", "echo", "hello"])
    assert no_start.exit_code == ExitCode.BAD_INPUT
    assert CliRunner().invoke(cli, [*asked, "--kv-cache-dtype", "fp9"]).exit_code == ExitCode.BAD_INPUT
    beside = CliRunner().invoke(cli, [*asked[:2], "--gpu", "name=x,memory=48GB,cc=5"])
    assert beside.exit_code == ExitCode.BAD_INPUT
    assert beside.output.startswith("--gpu compute_capability must be")


def test_flags_of_another_engine_are_one_word() -> None:
    asked = ["plan", "Qwen/Qwen3-8B", "--engine", "llama.cpp", "--gpu", "l4", "--engine-flags", "-c", "32768"]
    found = CliRunner().invoke(cli, asked)
    assert found.exit_code == ExitCode.BAD_INPUT
    assert found.output == "--engine-flags takes all flags as one word: --engine-flags '-c 32768'\n"


@pytest.mark.parametrize(
    ("path", "route"), [("/v1/plann", "/v1/plan"), ("/gpu", "/v1/gpus"), ("/v1/modles", "/v1/models")]
)
def test_a_mistyped_route_is_answered_with_the_nearest(client: TestClient, path: str, route: str) -> None:
    problem = client.get(path).json()
    assert problem["status"] == 404
    assert route in problem["nearest"]
    assert route in problem["detail"]


@pytest.mark.parametrize("path", ["/wp-login.php", "/.env", "/v1/completions"])
def test_other_paths_are_near_no_route(client: TestClient, path: str) -> None:
    assert "nearest" not in client.get(path).json()


CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
DOCKER = f"docker run --gpus '\"device=0,1\"' -v {CACHE} vllm/vllm-openai:v0.19.0"


@pytest.mark.parametrize(("flags", "idle"), [("", True), (" --tensor-parallel-size 2", False)])
def test_devices_and_a_cache_of_a_docker_line_are_named(flags: str, idle: bool, client: TestClient) -> None:
    body = {"command": f"{DOCKER} --model Qwen/Qwen3-8B{flags}", "gpus": ["h100-sxm-80gb"]}
    notes = client.post("/plan", json=body).json()["command"]["notes"]
    assert any("shares a cache of models with its host" in note for note in notes)
    assert any("gives the start 2 GPUs (0, 1), and it uses 1" in note for note in notes) is idle


def test_a_word_finds_the_models_that_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = CliRunner().invoke(cli, ["plan", "mistral", "--gpu", "h100"])
    first, near, where, remedies = result.stderr.splitlines()
    assert result.exit_code == 2
    assert "mistral is neither stored nor bundled" in first
    assert near.startswith("Nearest: mistralai/Mistral-7B-")
    assert where.endswith("dryserve models list mistral")
    assert remedies.startswith("Unset HF_HUB_OFFLINE")


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/data/models/Qwen/Qwen3-8B", ["Qwen/Qwen3-8B"]),
        ("/home/me/qwen3-8b/", ["Qwen/Qwen3-8B"]),
        ("/models/my-finetune", None),
    ],
)
def test_a_folder_with_the_name_of_a_model_names_it(path: str, near: Any, client: TestClient) -> None:  # noqa: ANN401
    found = client.post("/v1/plan", json={"command": f"vllm serve {path}", "gpus": ["l4-24gb"]}).json()
    (fault,) = found["errors"]
    assert fault.get("nearest") == near
    assert ("such as Qwen/Qwen3-8B," in fault["detail"]) is (near is not None)
