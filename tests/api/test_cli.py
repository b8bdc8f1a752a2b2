"""The command line says the same as the service."""

import json
import re
import shlex
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service import __version__
from service.application.schemas.flags.serve import ServeInput
from service.cli.main import cli
from tests.api.plan_bodies import GEMMA, LLAMA_CONFIG

GEMMA_LINE = shlex.split(
    "plan google/gemma-4-31B-it --gpu rtx-3090-24gb --engine-version 0.19.0 --tensor-parallel-size 2 "
    "--max-model-len 131072 --max-num-batched-tokens 2048 --kv-cache-memory-bytes 12390980648 "
    "--kv-cache-dtype auto"
)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, words)
    return result.exit_code, result.stdout, result.stderr


def test_it_answers_as_the_service_does(client: TestClient) -> None:
    code, out, _ = _run(*GEMMA_LINE)
    assert code == 4  # the bytes given are exact, but not beside bfloat16 weights on this card
    assert json.loads(out) == client.post("/plan", json=GEMMA).json()


def test_a_table_and_a_command(client: TestClient) -> None:
    table = client.post("/plan", json=GEMMA, headers={"Accept": "text/plain"}).text
    assert _run(*GEMMA_LINE, "--format", "table") == (4, table, "")
    (command,) = _run(*GEMMA_LINE, "--format", "command")[1].splitlines()
    assert command in table.splitlines()


def test_a_refusal_exits_with_3() -> None:
    line = [*GEMMA_LINE, "--engine-version", "0.20.2", "--kv-cache-dtype", "int8_per_token_head"]
    assert _run(*line)[0] == 3


def test_a_patch_is_given_by_name() -> None:
    line = [*GEMMA_LINE, "--engine-version", "0.20.2", "--kv-cache-dtype", "int8_per_token_head"]
    assert _run(*line, "--patch", "vllm#40391")[0] == 4


CHECK = ("check", "Qwen/Qwen3-32B", "--engine-version", "0.33.0", "--format", "json")
LONG_ANSWERS = ("--prompt-tokens", "8000", "--output-tokens", "30000", "--concurrent-requests", "30")


def _gpus(*names: str) -> list[str]:
    return [word for name in names for word in ("--gpu", name)]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        # 32.8 billion parameters in bfloat16 are 61 GiB: one H100 has no room for 40,960 tokens, two have.
        (_gpus("h100-sxm-80gb"), 3),
        ([*_gpus("h100-sxm-80gb"), "--tensor-parallel-size", "2"], 0),
        (_gpus("h200-sxm-141gb", "h100-sxm-80gb"), 3),
        ([*_gpus("h200-sxm-141gb", "h100-sxm-80gb"), "--any"], 0),
        (_gpus("h200-sxm-141gb", "b200-180gb"), 0),
        # Two H100 admit all 30 requests, but their answers outgrow the cache; eight do not.
        ([*_gpus("h100-sxm-80gb"), *LONG_ANSWERS, "--tensor-parallel-size", "2"], 5),
        ([*_gpus("h100-sxm-80gb"), *LONG_ANSWERS, "--tensor-parallel-size", "8"], 0),
    ],
)
def test_a_check_exits_by_the_command_as_given(words: list[str], code: int) -> None:
    assert _run(*CHECK, *words)[0] == code


def test_a_plan_finds_what_a_check_does_not_look_for() -> None:
    assert _run("plan", *CHECK[1:], *_gpus("h100-sxm-80gb"))[0] == 0


def test_without_named_gpus_one_that_starts_is_enough() -> None:
    assert _run("check", "meta-llama/Llama-3.1-8B", "--max-model-len", "8192", "--format", "table")[0] == 0


def test_a_check_has_one_candidate_for_each_gpu_with_the_engines_defaults(client: TestClient) -> None:
    _, out, _ = _run(*CHECK, *_gpus("h200-sxm-141gb", "h100-sxm-80gb"))
    plans = json.loads(out)["plans"]
    found = [plan["recommended"] or plan["nearest_refused"] for plan in plans]

    assert [sum(plan["tried"].values()) for plan in plans] == [1, 1]
    assert {(each["kv_cache_dtype"], each["tensor_parallel_size"]) for each in found} == {("auto", 1)}
    body = {"model": CHECK[1], "engine": {"version": CHECK[3]}, "search": False}
    body["gpus"] = ["h200-sxm-141gb", "h100-sxm-80gb"]
    assert client.post("/plan", json=body).json() == json.loads(out)


def test_a_refused_check_names_fixes_with_what_they_give() -> None:
    """Each fix is checked as it is printed, and gives what it says."""
    _, out, _ = _run(*CHECK, *_gpus("h100-sxm-80gb"))
    fixes = json.loads(out)["plans"][0]["nearest_refused"]["error"]["fixes"]

    assert any(fix["change"].startswith("--max-model-len") for fix in fixes)
    for fix in (each for each in fixes if each["change"].startswith("--")):
        _, out, _ = _run(*CHECK, *_gpus("h100-sxm-80gb"), *shlex.split(fix["change"]))
        candidate = json.loads(out)["plans"][0]["recommended"]
        assert (candidate["verdict"], candidate["command"]) == (fix["verdict"], fix["command"])
        assert candidate["kv_cache"]["tokens"] == fix["tokens"]


def test_both_numbers_are_printed_where_requests_are_preempted() -> None:
    words = [*_gpus("h100-sxm-80gb"), *LONG_ANSWERS, "--tensor-parallel-size", "2"]
    _, table, _ = _run(*CHECK[:-1], "table", *words)
    _, out, _ = _run(*CHECK, *words)
    answer = json.loads(out)
    admission = answer["plans"][0]["recommended"]["admission"]

    assert admission["completed_without_preemption"] < 30 <= admission["admitted_at_once"]
    assert (answer["outcome"]["serves_workload"], answer["outcome"]["preempts_workload"]) == (0, 1)
    words_of = " ".join(table.split())
    assert f"{admission['admitted_at_once']} can start together" in words_of
    assert f"only {admission['completed_without_preemption']} can finish without being preempted" in words_of


def test_a_sure_start_exits_with_0() -> None:
    line = shlex.split("plan meta-llama/Llama-3.1-8B --gpu h100-sxm-80gb --kv-cache-dtype auto")
    assert _run(*line)[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["google/gemma-4-31B-it", "--gpu", "rtx-3091"], "rtx-3090-24gb"),
        (["google/gemma-4-31B-it", "--gpu", "a100"], "a100-sxm-80gb"),
        (["google/gemma-4-31B-it", "--gpu", "name=x,memory=40GiB,cc=99.0"], "no GPU has compute capability"),
        (["google/gemma-4-31B-it", "--engine-version", "0.18.7"], "0.33.0"),
        (["google/gemma-4-31B-it", "--patch", "vllm#1"], "vllm#40391"),
        (["google/gemma-4-31B-it", "--kv-cache-dtype", "fp9"], "fp8"),
        (
            ["google/gemma-4-31B-it", "--gpu-memory-utilization", "1.5"],
            "--gpu-memory-utilization must be between 0 and 1 (got 1.5)",
        ),
        (["google/gemma-4-31B"], "google/gemma-4-31B-it"),
        (["google/gemma-4-31B-it", "--max-model-len", "long"], "max-model-len"),
        (["google/gemma-4-31B-it", "--tensor-paralel-size", "2"], "--tensor-parallel-size"),
        (["google/gemma-4-31B-it", "--config", "nowhere.json"], "nowhere.json"),
        ([], "MODEL"),
    ],
)
def test_bad_input_exits_with_2_and_says_what_instead(words: list[str], said: str) -> None:
    code, out, err = _run("plan", *words)
    assert (code, out) == (2, "")
    assert said.lower() in err.lower()


def test_a_config_is_planned_without_any_hub(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(LLAMA_CONFIG))
    line = ["plan", "mine", "--config", str(config), "--gpu", "rtx-3090-24gb", "--max-model-len", "8192"]
    code, out, err = _run(*line, "--tensor-parallel-size", "1", "--kv-cache-memory-bytes", "2000000000")
    assert (code, err) == (0, "")
    assert json.loads(out)["model"]["source"] == "inline"


@pytest.mark.parametrize("content", ["{", "[]", "\x00"])
def test_a_config_that_is_none_is_bad_input(content: str, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(content)
    assert _run("plan", "mine", "--config", str(config))[0] == 2


def test_a_table_shows_all_ranks_that_are_needed() -> None:
    """550 GiB of weights: 8 x 31.4 GiB are too few, four times as many are not."""
    _, out, _ = _run("plan", "moonshotai/Kimi-K2.6", "--gpu", "rtx-5090-32gb", "--kv-cache-dtype", "auto")
    planned = json.loads(out)["plans"][0]["recommended"]
    _, table, _ = _run(
        *("plan", "moonshotai/Kimi-K2.6", "--gpu", "rtx-5090-32gb", "--kv-cache-dtype", "auto"),
        *("--format", "table"),
    )

    assert planned["tensor_parallel_size"] * planned["pipeline_parallel_size"] >= 550 / 31.4
    tensor, pipeline = (planned[f"{way}_parallel_size"] for way in ("tensor", "pipeline"))
    assert f"TP {tensor} x PP {pipeline}" in table
    row, *_ = [line for line in table.splitlines() if line.startswith("auto (") and "starts" in line]
    assert row.split()[2:4] == [str(tensor), str(pipeline)]


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    code, _, err = _run("plan", "a/model", "--config", str(tmp_path))

    assert code == 2
    assert "is a directory" in " ".join(err.split())


def test_every_flag_of_the_engine_is_an_option() -> None:
    words = _run("plan", "--help")[1].split()
    for flag in ServeInput.model_fields:
        assert any(word.startswith(f"--{flag.replace('_', '-')}") for word in words)


def test_openapi_is_what_is_committed() -> None:
    committed = Path(__file__).parents[2] / "openapi.yaml"
    assert _run("openapi")[1] == committed.read_text("utf-8")


def test_the_version_is_printed() -> None:
    assert _run("--version") == (0, f"{__version__}\n", "")


def test_gpus_are_named_as_people_name_them() -> None:
    line = shlex.split(
        "plan Qwen/Qwen3-8B --tensor-parallel-size 1 --kv-cache-dtype auto --max-model-len 8192"
    )
    code, out, _ = _run(*line, "--gpu", "H100,RTX 4090", "--gpu", "name=mine,memory=40GiB,cc=8.0")

    gpus = [plan["gpu"] for plan in json.loads(out)["plans"]]
    assert code == 0
    assert [gpu["id"] for gpu in gpus] == ["h100-sxm-80gb", "rtx-4090-24gb", "mine"]
    assert (gpus[2]["memory_bytes"], gpus[2]["compute_capability"]) == (42_949_672_960, "8.0")


@pytest.mark.parametrize(
    ("flag", "written", "number"),
    [
        ("max-model-len", "32k", 32_000),
        ("max-model-len", "32K", 32_768),
        ("max-num-batched-tokens", "8K", 8_192),
        ("kv-cache-memory-bytes", "5G", 5_368_709_120),
        ("free-memory-bytes", "70G", 75_161_927_680),
        ("prompt-tokens", "16k", 16_000),
    ],
)
def test_numbers_may_have_units(flag: str, written: str, number: int) -> None:
    line = shlex.split("plan Qwen/Qwen3-8B --gpu h100 --tensor-parallel-size 1 --kv-cache-dtype auto")

    assert _run(*line, f"--{flag}", written) == _run(*line, f"--{flag}", str(number))


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("check Qwen/Qwen3-8BB --gpu l4", "Qwen/Qwen3-8B"),
        ("check Qwen/Qwen3-8B --gpu l4 --kv-cache-dtype fp88", "fp8"),
    ],
)
def test_the_nearest_name_is_told_where_the_wrong_one_begins_with_it(line: str, near: str) -> None:
    code, _, err = _run(*shlex.split(line))

    assert code == 2
    found = re.search(r"[Nn]earest(?: of \d+)?: ([^,;\s]+)", err)
    assert found is not None
    assert found[1] == near


def test_each_value_at_fault_has_its_own_nearest_names() -> None:
    wrong = "--gpu rtx4900,h1000 --kv-cache-dtype fp88 --quantization awk --attention-backend FLASH_ATN"
    code, _, err = _run(*shlex.split(f"check Qwen/Qwen3-8B {wrong}"))

    assert code == 2
    near = {line.partition(":")[0]: line for line in err.splitlines()}
    assert set(near) == {"--quantization", "--attention-backend", "--kv-cache-dtype", "--gpu"}
    assert "nearest of 22: fp8;" in near["--kv-cache-dtype"]
    assert "nearest of 45: awq;" in near["--quantization"]
    assert ": FLASH_ATTN," in near["--attention-backend"]
    assert [line for line in err.splitlines() if "nearest: rtx-4090-24gb" in line]
    assert [line for line in err.splitlines() if "nearest: h100-" in line]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("gpus list rtx4900", "rtx-4090-24gb"),
        ("gpus list zzz", None),
        ("models list Qwen/Qwen3-8BB", "Qwen/Qwen3-8B"),
        ("models list zzz", None),
    ],
)
def test_an_empty_list_says_why(words: str, near: str | None) -> None:
    code, _, err = _run(*shlex.split(words))
    assert code == 0
    assert "has all of these words in its name" in err
    assert (f"nearest: {near}" in err) if near else ("nearest" not in err)


@pytest.mark.parametrize(
    ("given", "code"), [("tritn", 2), ("triton", 0), ("FLASHINFER-CUTLASS", 0), ("of_another_build", 0)]
)
def test_a_mistyped_kernel_is_refused_and_one_of_another_build_is_not(given: str, code: int) -> None:
    """vLLM 0.33.0, config/kernel.py: MoEBackend is a list of words, in any case and with either dash."""
    assert _run("check", "Qwen/Qwen3-8B", "--gpu", "h100", "--moe-backend", given)[0] == code


@pytest.mark.parametrize(
    "flags",
    [
        "--attention-backend FLSH",
        "--attention-backend zzz",
        "--quantization zzz",
        "--kv-cache-dtype zzz",
        "--all2all-backend zzz",
        "--gpu zzz",
        "--engine-version zzz",
        "--patch zzz",
        """--speculative-config '{"method": "zzz"}'""",
        "--engine sglang --engine-version zzz",
        "--engine llama.cpp --engine-version zzz",
    ],
)
def test_a_wrong_name_is_answered_in_a_line_that_says_where_the_list_stands(flags: str) -> None:
    code, _, err = _run(*shlex.split(f"check Qwen/Qwen3-8B --gpu l4 {flags}"))

    assert code == 2
    assert len(err) < 330
    assert re.search(r"`dryserve (gpus|engines) (list|values)|later, to |newest one|choices: ", err), err


def test_the_values_of_a_flag_are_listed_with_their_releases() -> None:
    """vLLM 0.20.0 brought turboquant_k8v4, and 0.11.0 bfloat16, to CacheDType of config/cache.py."""
    code, out, _ = _run("engines", "values", "--", "--kv-cache-dtype")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[2:]}

    assert code == 0
    assert rows["turboquant_k8v4"] == ["0.20.0"]
    assert rows["bfloat16"] == ["0.11.0"]
    assert _run("engines", "values", "kv_cache_dtyp")[0] == 2
    flags = {line.split()[0] for line in _run("engines", "values")[1].splitlines()[2:]}
    assert {"attention_backend", "quantization", "speculative_config.method"} <= flags


@pytest.mark.parametrize(
    ("model", "code"), [("Qwen/Qwen3-8BB", 2), ("meta-llama/Llama-3.2-90B", 7), ("acme/unheard-of", 7)]
)
def test_an_outage_of_the_hub_is_told_from_a_mistyped_name(
    model: str, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("DRYSERVE_CACHE", str(tmp_path / "cache.sqlite3"))
    found, _, err = _run("check", model, "--gpu", "l4")
    assert found == code
    assert f"{model} is neither bundled nor stored here" in err
    assert "ConnectError" in err


def test_the_length_may_be_left_to_the_engine(client: TestClient) -> None:
    line = shlex.split("plan Qwen/Qwen3-8B --gpu l4 --tensor-parallel-size 1 --kv-cache-dtype auto")
    auto, fitted = (_run(*line, f"--max-model-len={length}") for length in ("auto", "-1"))

    assert auto == fitted
    body = {"model": "Qwen/Qwen3-8B", "gpus": ["l4"]}
    serve = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": "auto"}
    assert client.post("/plan", json={**body, "serve": serve}).json() == json.loads(auto[1])


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    line = ["--gpu", "rtx-3090-24gb", "--max-model-len", "8192", "--tensor-parallel-size", "1"]
    code, out, err = _run("plan", str(tmp_path), *line, "--kv-cache-memory-bytes", "2000000000")

    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert (answer["model"]["id"], answer["model"]["source"]) == (str(tmp_path), "inline")
    assert answer["plans"][0]["recommended"]["command"].startswith(f"vllm serve {tmp_path} ")


def test_a_command_serves_a_folder_of_this_host(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    start = ["vllm", "serve", str(tmp_path), "--max-model-len", "8192"]
    code, out, err = _run("plan", "--gpu", "h100", "--format", "command", "--", *start)

    assert (code, err) == (0, "")
    assert out.split() == start


def test_a_command_that_serves_a_folder_of_another_host_takes_its_id_before_it() -> None:
    start = ["--gpu", "h100", "--", "vllm", "serve", "/models/nowhere", "--max-model-len", "8192"]
    code, _, err = _run("plan", *start)
    assert code == 2
    assert "before `--`" in err
    code, out, _ = _run("plan", "--format", "json", "meta-llama/Llama-3.1-8B", *start)
    assert code == 0
    assert json.loads(out)["model"]["id"] == "meta-llama/Llama-3.1-8B"


def test_prompts_fill_the_context_where_a_workload_names_none() -> None:
    line = (
        "plan",
        "Qwen/Qwen3-32B",
        "--gpu",
        "h100:2",
        "--max-model-len",
        "32k",
        "--concurrent-requests",
        "8",
    )
    filled = _run(*line, "--output-tokens", "500", "--format", "json")
    assert filled == _run(*line, "--output-tokens", "500", "--prompt-tokens", "31500", "--format", "json")
    code, _, err = _run("plan", "Qwen/Qwen3-32B", "--gpu", "h100", "--concurrent-requests", "8")
    assert code == 2
    assert "--max-model-len" in err


def test_names_in_one_word_are_separated_by_commas() -> None:
    line = ("plan", "meta-llama/Llama-3.1-8B", "--gpu", "h100", "--include", "curve,levers")
    together = _run(*line, "--compare", "0.20.2,0.32.0", "--format", "json")
    apart = _run(*line, "--compare", "0.20.2", "--compare", "0.32.0", "--format", "json")
    assert together == apart
    assert together[0] == 0


def test_limits_of_modalities_are_taken_as_older_releases_took_them() -> None:
    line = ("check", "Qwen/Qwen2.5-VL-7B-Instruct", "--gpu", "h100", "--format", "json")
    older = _run(*line, "--limit-mm-per-prompt", "image=2,video=0")
    assert older == _run(*line, "--limit-mm-per-prompt", '{"image": 2, "video": 0}')
    assert older[0] == 0


def test_a_table_shows_the_curve_of_the_answer() -> None:
    line = ("plan", "meta-llama/Llama-3.1-8B", "--gpu", "h100", "--include", "curve")
    points = json.loads(_run(*line, "--format", "json")[1])["plans"][0]["recommended"]["curve"]
    table = _run(*line, "--format", "table")[1]
    shown = [point for point in points if f"{point['tokens']:,} tokens {point['requests']:>7,}" in table]
    assert {1024, 2048, 131072} <= {point["tokens"] for point in shown}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("./nowhere", "does not exist"),
        ("nobody/nothing", "Unset HF_HUB_OFFLINE"),
        ("org/name-GGUF:Q4_K_M", "GGUF"),
    ],
)
def test_a_model_that_is_not_to_be_had_says_what_to_do(model: str, said: str) -> None:
    code, out, err = _run("plan", model)

    assert (code, out) == (2, "")
    assert said in err


def test_a_hub_that_refuses_connections_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundled model is planned all the same, with a note; any other ends with one line."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # the discard port, where nothing listens

    code, out, _ = _run("plan", "Qwen/Qwen3-8B", "--gpu", "h100", "--format", "table")
    assert code == 0
    assert "bundled" in out.splitlines()[0]
    assert "the Hub gave no usable response" in out
    code, out, err = _run("plan", "nobody/nothing", "--gpu", "h100")
    assert (code, out) == (7, "")
    assert "The Hub could not be reached" in err
    assert len(err.splitlines()) == 1


def test_an_encoder_is_planned_without_a_cache(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA_CONFIG, "architectures": ["BertModel"]}))
    code, out, _ = _run("plan", str(tmp_path), "--gpu", "h100", "--format", "json")

    assert code == 0
    assert json.loads(out)["plans"][0]["recommended"]["kv_cache"] is None


def test_a_mig_slice_is_a_gpu_of_one_rank() -> None:
    line = ["plan", "Qwen/Qwen3-8B", "--gpu", "a100-sxm-80gb-mig-3g.40gb", "--kv-cache-dtype", "auto"]
    line += ["--include", "candidates"]
    code, out, _ = _run(*line)
    (plan,) = json.loads(out)["plans"]
    assert code == 0
    assert plan["recommended"]["tensor_parallel_size"] == 1
    starting = [each for each in plan["candidates"] if each["verdict"] in {"starts", "uncertain"}]
    assert {each["tensor_parallel_size"] for each in starting} == {1}

    code, out, _ = _run(*line, "--tensor-parallel-size", "2")
    assert code == 3
    # vLLM 0.32.0, ParallelConfig.__post_init__.
    assert "World size (2) is larger than the number of available GPUs (1) in this node." in out


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["--", "docker", "run", "vllm/vllm-openai"], "COMMAND: the command does not say its model"),
        (["google/gemma-4-31B-it", "--tensor-parallel-size", "0"], "--tensor-parallel-size must be "),
    ],
)
def test_a_fault_reads_as_one_sentence(words: list[str], start: str) -> None:
    """A sentence about a command follows a colon; what an option must be goes on after its name."""
    result = CliRunner().invoke(cli, ["plan", "--gpu", "l4", *words])
    assert (result.exit_code, result.stderr.startswith(start)) == (2, True), result.stderr


def test_prompts_longer_than_the_context_are_told_with_the_flags_that_take_them() -> None:
    """By hand: 128,000 tokens need 32 steps of 4,096, 4 times the 32,768 that Qwen3's cards scale."""
    line = shlex.split("plan Qwen/Qwen3-235B-A22B-FP8 --prompt-tokens 128k --format table")
    _, told, _ = _run(*line, "--gpu", "h200,h100")
    flags = next(each for each in told.splitlines() if "'{" in each)
    overrides = json.loads(shlex.split(flags[flags.index("'{") :])[0].rstrip(","))
    code, out, _ = _run(
        *shlex.split("plan Qwen/Qwen3-235B-A22B-FP8 --prompt-tokens 128k --gpu h200 --max-model-len 131072"),
        "--hf-overrides",
        json.dumps(overrides),
    )

    assert "The engine refuses these prompts: 128,000 tokens" in " ".join(told.split())
    assert overrides["max_position_embeddings"] == 131_072
    assert overrides["rope_parameters"]["factor"] == 4.0
    assert code == 0
    assert json.loads(out)["outcome"]["serves_workload"] == 1
