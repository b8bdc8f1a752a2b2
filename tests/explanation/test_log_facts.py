import pytest

from service.engines.releases import UnknownRelease
from service.explanation.log_facts import flags_of, gpus_of, release_of
from service.gpus.catalog import gpu_catalog
from service.startup_log.log import read_log


@pytest.mark.parametrize(
    ("line", "release", "assumed"),
    [
        ("vLLM API server version 0.19.1", "0.19.1", False),
        ("vLLM API server version 0.17.1.post1", "0.17.1", False),
        # A build of the main branch after 0.23.0 leads to 0.24.0.
        ("vLLM API server version 0.23.1rc1.dev531+ga65f93fb2", "0.24.0", True),
        ("vLLM API server version 0.21.0rc1", "0.21.0", True),
        # The statement stands on this line in 0.19.1 alone, whatever the build calls itself.
        (
            "vLLM API server version 0.21.0rc1\nINFO [kv_cache_utils.py:1319] GPU KV cache size: 8 tokens",
            "0.19.1",
            True,
        ),
        ("INFO [kv_cache_utils.py:1319] GPU KV cache size: 8 tokens", "0.19.1", True),
        ("nothing", "0.33.0", True),
    ],
)
def test_the_release_is_read_or_assumed(line: str, release: str, assumed: bool) -> None:
    found, assumptions = release_of(read_log(line))

    assert found == release
    assert bool(assumptions) is assumed


@pytest.mark.parametrize("specified", ["0.8.5", "0.19.7", "latest", "0.1.dev1+gabc"])
def test_a_release_that_is_not_modelled_is_not_replaced(specified: str) -> None:
    with pytest.raises(UnknownRelease):
        release_of(read_log(f"vLLM API server version {specified}"))


@pytest.mark.parametrize("specified", ["0.34.0", "0.33.1.dev4+gabc", "9.9.9"])
def test_a_newer_release_is_assumed_to_be_the_newest_checked_one(specified: str) -> None:
    found, (assumed,) = release_of(read_log(f"vLLM API server version {specified}"))
    assert (found, assumed.taken) == ("0.33.0", "0.33.0")
    assert specified in assumed.why
    assert not assumed.certain


@pytest.mark.parametrize(
    ("lines", "likeliest"),
    [
        # vLLM 0.19.0 on an H100 SXM printed 79.19 GiB and FlashAttention 3.
        ("total_memory=79.19GiB\nUsing FlashAttention version 3", "h100-sxm-80gb"),
        ("E=128,N=192,device_name=NVIDIA_H200.json", "h200-sxm-141gb"),
        ("Free memory on device (23.05/23.56 GiB) on startup.", "rtx-3090-24gb"),
        ("GPU 0 has a total capacity of 31.36 GiB of which 17.88 MiB is free.", "rtx-5090-32gb"),
    ],
)
def test_the_gpu_is_found_by_its_name_or_its_memory(lines: str, likeliest: str) -> None:
    assert gpus_of(read_log(lines), gpu_catalog())[0].id == likeliest


def test_a_gpu_that_is_not_logged_is_not_assumed() -> None:
    assert gpus_of(read_log("GPU KV cache size: 8 tokens"), gpu_catalog()) == ()
    assert gpus_of(read_log("total_memory=1.00GiB"), gpu_catalog()) == ()


def test_flags_are_those_that_were_given() -> None:
    """Defaults that the engine logs are not taken for flags: they are compared with the plan's own."""
    flags, assumed = flags_of(
        read_log(
            "non-default args: {'model': 'm', 'tensor_parallel_size': 2}\n"
            "Chunked prefill is enabled with max_num_batched_tokens=8192.\n"
        )
    )

    assert flags == {"tensor_parallel_size": 2, "kv_cache_dtype": "auto"}
    assert assumed == ()


def test_without_arguments_what_the_engine_settled_is_taken() -> None:
    flags, assumed = flags_of(
        read_log(
            "Chunked prefill is enabled with max_num_batched_tokens=8192.\n"
            "Desired GPU memory utilization is (0.95, 75.23 GiB).\n"
            "Initial free memory 93.88 GiB, reserved 49.0 GiB memory for KV Cache as specified by\n"
        )
    )

    assert flags == {
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.95,
        "kv_cache_memory_bytes": 49 << 30,
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 1,
    }
    assert [each.field for each in assumed] == ["serve"]


def test_the_length_of_a_request_is_taken_from_the_concurrency_where_nothing_else_tells_it() -> None:
    flags, _ = flags_of(read_log("Maximum concurrency for 131,072 tokens per request: 1.87x"))

    assert flags["max_model_len"] == 131_072


def test_an_engines_own_configuration_leaves_nothing_to_assume() -> None:
    line = (
        "Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-4B', dtype=torch.bfloat16, "
        "max_seq_len=40960, tensor_parallel_size=2, seed=0"
    )
    flags, assumed = flags_of(read_log(line))

    assert (flags["tensor_parallel_size"], flags["max_model_len"]) == (2, 40_960)
    assert assumed == ()
