"""What ended an engine, in logs that were gathered whole: forks, ranks and devices of which each reports."""

import pytest

from service.startup_log.catalogue.added_files import is_of_no_release
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

HEADER = "Traceback (most recent call last):"
HANDLING = "During handling of the above exception, another exception occurred:"
CORE = "(EngineCore pid=197113) ERROR 07-17 13:44:01 [core.py:1330]"
WORKER = "(Worker_TP1_EP1 pid=141114) ERROR 07-16 19:28:19 [multiproc_executor.py:1007]"


def failure_of(*lines: str) -> Failure:
    failure = read_log("\n".join(lines)).failure
    assert failure is not None
    return failure


def cause_of(*lines: str) -> str:
    cause = failure_of(*lines).cause
    return "" if cause is None else cause.name


def frame(path: str, function: str) -> str:
    return f'  File "/e/project1/alint77/vllm/vllm/{path}", line 75, in {function}'


@pytest.mark.parametrize(
    ("file", "function", "message"),
    [
        ("tiered_moe_kv.py", "get_tiered_kv_available_memory", "Tiered GLM requires 78 main and 21 indexer"),
        ("tiered_moe_placement.py", "load", "Placement profile config fingerprint does not match"),
    ],
)
def test_a_file_that_no_release_has_refuses_by_its_own_check(file: str, function: str, message: str) -> None:
    """alint77/jupiter-glm52-vllm-worklog: baseline and experiments of a fork, shortened."""
    failure = failure_of(
        f"{CORE} EngineCore failed to start.",
        f"{CORE} {HEADER}",
        f"{CORE} {frame('v1/core/kv_cache_utils.py', 'get_kv_cache_configs')}",
        f"{CORE} {frame(f'model_executor/model_loader/{file}', function)}",
        f"{CORE} ValueError: {message}",
    )

    assert failure.cause is not None
    assert failure.cause.name == "modified_engine_refuses"
    assert failure.message == message


def test_a_name_that_a_file_of_no_release_lacks_is_the_fork_s_fault() -> None:
    """mystous/vllm_hybrid: a class of the fork's own does not have what its scheduler sets."""
    raised = "AttributeError: '_NeoRequestView' object has no attribute '_is_decode'"
    failure = failure_of(
        f"{CORE} EngineCore encountered a fatal error.",
        f"{CORE} {HEADER}",
        f"{CORE} {frame('v1/engine/core.py', 'step')}",
        f"{CORE} {frame('v1/core/sched/neo_scheduler_adapter.py', 'schedule')}",
        f"{CORE} {raised}",
    )
    released = failure_of(
        f"{CORE} {HEADER}",
        f"{CORE} {frame('v1/engine/core.py', 'step')}",
        f"{CORE} {frame('v1/core/sched/scheduler.py', 'schedule')}",
        f"{CORE} {raised}",
    )

    assert failure.cause is not None
    assert failure.cause.name == "modified_engine_faulty"
    assert released.cause is not None
    assert released.cause.name == "engine_fault"


def test_files_of_releases_and_of_other_programs_are_no_fork_s() -> None:
    core = ["/x/vllm/vllm/v1/engine/core.py", "/x/site-packages/vllm/v1/engine/core.py"]
    assert is_of_no_release("/x/vllm/vllm/model_executor/model_loader/tiered_moe_kv.py", core)
    assert not is_of_no_release("/x/vllm/vllm/model_executor/model_loader/default_loader.py", core)
    assert not is_of_no_release("/x/vllm/serve.py", core)
    assert not is_of_no_release("/x/vllm/.venv/lib/python3.12/site-packages/torch/utils/_contextlib.py", core)
    assert not is_of_no_release("/x/site-packages/vllm/model_executor/some_new_folder/__init__.py", core)


def test_a_folder_that_has_the_engine_s_name_is_not_its_package() -> None:
    """A program in a folder vllm, and the benchmarks of a checkout, which are beside the package."""
    core = ["/usr/lib/site-packages/vllm/v1/engine/core.py"]
    assert not is_of_no_release("/home/u/vllm/config/own_program.py", core)
    assert not is_of_no_release("/home/u/vllm/benchmarks/own_benchmark.py", [])


@pytest.mark.parametrize(
    "file",
    # vLLM 0.12.0 and 0.15.1 have the first two, which later moved; 0.33.0 has the third, and 0.26.0, 0.29.0
    # and 0.17.1 the others, in which no class of their own or none at all stands.
    [
        "attention/ops/prefix_prefill.py",
        "compilation/matcher_utils.py",
        "entrypoints/openai/dp_supervisor.py",
        "models/deepseek_v32/nvidia/fused_ops.py",
        "models/qwen4_exp/nvidia/ops/qsa_pre_indexer.py",
        "model_executor/layers/mamba/ops/ssd_bmm.py",
    ],
)
def test_a_file_that_a_release_moved_is_no_fork_s(file: str) -> None:
    assert not is_of_no_release(f"/x/vllm/{file}", ["/x/vllm/v1/engine/core.py"])


def test_drafts_that_do_not_fit_their_place_are_no_media() -> None:
    """alint77/jupiter-glm52-vllm-worklog, 2026-07-25-dspark/dspark-keep5-server.out, shortened."""
    assert (
        cause_of(
            f"{WORKER} WorkerProc hit an exception.",
            f"{WORKER} {HEADER}",
            f"{WORKER} {frame('v1/worker/gpu/warmup.py', 'warmup_kernels')}",
            f"{WORKER} {frame('v1/worker/gpu/model_runner.py', 'sample_tokens')}",
            f"{WORKER} RuntimeError: shape mismatch: value tensor of shape [5] cannot be broadcast to "
            "indexing result of shape [1, 8]",
        )
        == "tensors_do_not_fit"
    )


def test_a_library_that_fails_after_a_kernel_s_fault_is_not_the_root() -> None:
    """alint77/jupiter-glm52-vllm-worklog, baseline/failed-fused-allreduce-server.out, shortened."""
    assert (
        cause_of(
            f"{WORKER} WorkerProc hit an exception.",
            f"{WORKER} {HEADER}",
            f"{WORKER} {frame('compilation/cuda_graph.py', '__call__')}",
            f"{WORKER} RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(`",
            f"{WORKER} ",
            f"{WORKER} {HANDLING}",
            f"{WORKER} {HEADER}",
            f"{WORKER} {frame('v1/worker/gpu_model_runner.py', '_cleanup_profiling_kv_cache')}",
            f"{WORKER} torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        )
        == "illegal_memory_access"
    )


def test_memory_that_a_sleeping_engine_does_not_get_back_is_a_failure_of_sleep_mode() -> None:
    """WaroonRagwongsiri/SuperAi-SS6-Level2-Hack4, llm.log, shortened."""
    core = "(EngineCore pid=48216) ERROR 06-02 14:31:01 [core.py:1365]"
    assert (
        cause_of(
            "(APIServer pid=47967) INFO:     Application startup complete.",
            "CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139",
            f"{core} Invocation of wake_up method failed",
            f"{core} {HEADER}",
            f"{core} {frame('v1/worker/gpu_worker.py', 'wake_up')}",
            f"{core} {frame('device_allocator/cumem.py', 'create_and_map')}",
            f"{core} RuntimeError: CUDA Error: out of memory at /workspace/csrc/cumem_allocator.cpp:139",
        )
        == "sleep_mode_failed"
    )


@pytest.mark.parametrize(
    ("path", "function", "message", "cause"),
    [
        (
            *("v1/worker/gpu_model_runner.py", "_prepare_inputs"),
            "ValueError: could not broadcast input array from shape (100,) into shape (101,)",
            "engine_fault",
        ),
        (
            *("v1/worker/gpu_model_runner.py", "execute_model"),
            "ValueError: zero-size array to reduction operation maximum which has no identity",
            "engine_fault",
        ),
        ("v1/engine/core.py", "step_with_batch_queue", "RuntimeError: unexpected error", "engine_fault"),
        (
            *("model_executor/layers/attention/attention.py", "get_attention_context"),
            "AssertionError: Expected slot_mapping to be a dict, got <class 'list'>. ",
            "engine_fault",
        ),
        (
            *("vllm_flash_attn/flash_attn_interface.py", "flash_attn_varlen_func"),
            "RuntimeError: batch_size must be equal to batch_size_k",
            "tensors_do_not_fit",
        ),
        (
            *("distributed/parallel_state.py", "init_model_parallel_group"),
            "RuntimeError: Resource temporarily unavailable",
            "thread_limit",
        ),
    ],
)
def test_a_step_whose_arrays_do_not_agree_is_a_fault_of_the_engine(
    path: str, function: str, message: str, cause: str
) -> None:
    """mystous/vllm_hybrid, eval/results: one log of each, shortened."""
    found = cause_of(
        f"{WORKER} WorkerProc hit an exception.",
        f"{WORKER} {HEADER}",
        f"{WORKER} {frame(path, function)}",
        f"{WORKER} {message}",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)",
    )

    assert found == cause


def test_what_a_worker_went_on_without_is_not_the_root() -> None:
    """mystous/vllm_hybrid, 20260504_221611 neo_on.log, shortened: the fork logs a fallback as a warning."""
    warned = WORKER.replace("ERROR", "WARNING").replace(
        "multiproc_executor.py:1007", "gpu_model_runner.py:3740"
    )
    failure = failure_of(
        f"{warned} forked dual forward fell back, exception was RuntimeError: no space in the batch",
        f"{WORKER} WorkerProc hit an exception.",
        f"{WORKER} {HEADER}",
        f"{WORKER} {frame('v1/worker/gpu_model_runner.py', '_build_attention_metadata')}",
        f"{WORKER} AssertionError: builders of the group are fewer than its parts",
    )

    assert failure.type == "AssertionError"


def test_a_second_listener_of_nccl_s_own_reports_is_no_failure() -> None:
    """2215860382/VedioSifter, train_run_20260421_065709.log: one rank of a host listens."""
    line = (
        "(WorkerDict pid=529525) [2026-04-21 06:57:46] ZjuServer145:529525:535668 [0] "
        "ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use"
    )

    assert read_log(line).failure is None


def test_the_variables_of_a_trainer_name_no_failure() -> None:
    """2215860382/VedioSifter, train_run_20260421_065709.log, shortened: what Ray is given."""
    assert (
        cause_of(
            "ray init kwargs: {'runtime_env': {'env_vars': {'VLLM_DISABLE_COMPILE_CACHE': '1'}}}",
            HEADER,
            '  File "/x/site-packages/torch/utils/data/_utils/signal_handling.py", line 73, in handler',
            "RuntimeError: DataLoader worker (pid 563735) is killed by signal: Killed. ",
        )
        == "process_killed"
    )


def test_a_node_that_is_lost_is_the_reason_why_its_actor_died() -> None:
    """Ray 2.49, python/ray/exceptions.py ActorDiedError: of a node that missed its health checks."""
    core = "(EngineCore_DP0 pid=2231) ERROR 11-02 10:31:01 [core.py:936]"
    assert (
        cause_of(
            f"{core} EngineCore encountered a fatal error.",
            f"{core} {HEADER}",
            f'{core}   File "/x/site-packages/ray/_private/worker.py", line 2967, in get',
            f"{core} ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
            f"{core} \tclass_name: RayWorkerWrapper",
            f"{core} The actor died because its node has died. Node Id: 5a3c",
        )
        == "ray_node_lost"
    )


def test_what_another_process_raised_says_more_than_that_the_engine_ended() -> None:
    core = "(EngineCore_DP0 pid=2231) ERROR 11-02 10:31:01 [core.py:936]"
    assert (
        cause_of(
            f"{core} EngineCore encountered a fatal error.",
            f"{core} {HEADER}",
            f'{core}   File "/x/site-packages/ray/_private/worker.py", line 2967, in get',
            f"{core} ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        )
        == "ray_actor_died"
    )


def test_the_head_of_the_cluster_can_be_lost() -> None:
    """Ray 2.49, src/ray/rpc/gcs/gcs_rpc_client.h: the words with which each process ends."""
    failure = failure_of(
        "[2026-11-02 10:31:01,220 C 2231 2301] gcs_rpc_client.h:151:  Check failed: Failed to connect to GCS "
        "within 60 seconds. GCS may have been killed. It's either GCS is terminated by `ray stop` or"
    )

    assert failure.cause is not None
    assert failure.cause.name == "ray_node_lost"
    assert failure.form is not None
    assert "head" in failure.form.means


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ('"POST /v1/chat/completions HTTP/1.1" 404 Not Found', "/v1/models"),
        ('"POST /v1/chat/completions HTTP/1.1" 401 Unauthorized', "Authorization"),
        ('"POST /v1/chat/completions HTTP/1.1" 400 Bad Request', "body"),
    ],
)
def test_a_server_that_refuses_every_request_says_why_in_its_answers(answer: str, wanted: str) -> None:
    """uvicorn's log of requests has the status of an answer, and not its body."""
    started = "(APIServer pid=1) INFO:     Application startup complete."
    asked = "(APIServer pid=1) INFO:     172.17.0.1:55338 - "
    failure = failure_of(started, f"{asked}{answer}", f"{asked}{answer}")

    assert failure.refused
    assert failure.form is not None
    assert wanted in failure.form.remedy
    answered = f'{asked}"POST /v1/chat/completions HTTP/1.1" 200 OK'
    assert read_log("\n".join((started, f"{asked}{answer}", answered))).failure is None


BUILD = """\
#10 0.995   W0608 03:02:28.667000 11 torch/utils/cpp_extension.py:140] No CUDA runtime is found
#10 9.849   [extract] vllm/third_party/deep_gemm/include/cutlass/gemm/device/gemm_universal.h
#13 [ 9/11] RUN test -x /usr/local/cuda/bin/nvcc
"""
"""jethac/dgx-spark-hijinks, results: logs of builds of an image, shortened."""


def test_an_image_that_was_built_is_no_failure() -> None:
    ended = "#16 naming to docker.io/library/vllm-aeon-q36:a919d635d done\n#16 DONE 5.4s"

    assert read_log(f"{BUILD}{ended}").failure is None


def test_a_build_that_somebody_ended_did_not_fail_by_itself() -> None:
    failure = failure_of(f"{BUILD}#13 CANCELED\nERROR: failed to solve: Canceled: context canceled")

    assert failure.cause is not None
    assert failure.cause.name == "interrupted"


NGC = """\
vLLM Version 0.11.1+9114fd76
WARNING: CUDA Minor Version Compatibility mode ENABLED.
  Using driver version 580.126.09 which has support for CUDA 13.0.  This container
  [[Forward compatibility was attempted on non supported HW \
(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) cuInit()=804]]
(APIServer pid=1) INFO 05-28 19:45:41 [api_server.py:1980] vLLM API server version 0.11.1+9114fd76.nv25.12
"""
"""The entry point of NVIDIA's image, as a container's log has it."""


def test_what_an_image_goes_on_without_is_no_driver_that_is_too_old() -> None:
    assert read_log(NGC).failure is None


def test_a_driver_that_an_image_cannot_run_with_is_too_old() -> None:
    """NVIDIA's images, entrypoint.d: the words of a driver for which there is no compatibility mode."""
    text = "ERROR: This container was built for NVIDIA Driver Release 580.82 or later, but version 470.57 was"

    assert cause_of(f"{text} detected and compatibility mode is UNAVAILABLE.") == "driver_too_old"


LOST = """\
[rank3]:[W916 03:50:44.564491205 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=48): \
Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?
Exception raised from recvBytes at /x/torch/csrc/distributed/c10d/Utils.hpp:787 (most recent call first):
frame #2: c10::DistNetworkError::DistNetworkError(c10::SourceLocation) + 0x78 (0xe9af in libc10.so)
"""
"""nacyot, journal of one rank of a node, shortened: PyTorch's warning of a store that does not answer."""


def test_a_rank_that_lost_the_store_says_that_another_process_went_away() -> None:
    failure = failure_of(LOST)

    assert failure.cause is not None
    assert failure.cause.name == "rank_lost"
    assert "Did the remote server" in failure.message


def test_an_engine_that_ends_in_order_warns_of_its_store_too() -> None:
    """Such warnings stand at the end of most offline runs over several ranks."""
    log = "INFO 05-28 19:45:41 [llm.py:300] Supported tasks: ['generate']\nProcessed prompts: 100%|###| 50/50"

    assert read_log(f"{log}\n{LOST}").failure is None


def test_a_placement_group_that_is_not_ready_wants_gpus() -> None:
    failure = failure_of(
        "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}, {'GPU': 1.0}] "
        "within 1800 seconds. See `ray status` to make sure the cluster has enough resources."
    )

    assert failure.form is not None
    assert "free GPUs" in failure.form.means


def test_a_request_that_is_not_in_a_step_s_output_is_a_fault_of_the_engine() -> None:
    """vLLM 0.24.0, v1/core/sched/scheduler.py update_from_output: the key is the id of a request."""
    core = "ERROR 08-13 09:17:39 [core.py:1233]"
    failure = failure_of(
        f"{core} EngineCore encountered a fatal error.",
        "  core.py:605   step_with_batch_queue",
        "  scheduler.py:1578  req_index = model_runner_output.req_id_to_index[req_id]",
        "KeyError: 'chatcmpl-9ffad060daaa175d-ab405602'",
    )

    assert failure.cause is not None
    assert failure.cause.name == "engine_fault"
    assert failure.form is not None
    assert "request" in failure.form.means


LATER = "(EngineCore pid=1709) ERROR 06-01 17:32:05 [core.py:1330]"
DEAD = f"""\
{LATER} Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.
{LATER} EngineCore failed to start.
{LATER} {HEADER}
{LATER}   File "/x/vllm/v1/executor/abstract.py", line 124, in initialize_from_config
{LATER}   File "/x/vllm/distributed/device_communicators/shm_broadcast.py", line 779, in dequeue
{LATER} RuntimeError: cancelled
"""
"""vLLM 0.26.0, v1/executor/multiproc_executor.py monitor_workers: the words of releases since then."""


def test_a_worker_that_ended_without_a_word_is_the_reason_why_a_step_was_cancelled() -> None:
    failure = failure_of(DEAD)

    assert failure.cause is not None
    assert failure.cause.name == "engine_died_serving"
    assert failure.form is not None
    assert "dmesg" in failure.form.remedy


def test_the_message_of_a_worker_is_known_without_its_traceback() -> None:
    """File 57827867872 of the index that was searched, its end."""
    assert (
        cause_of(
            f"{LATER} RuntimeError: Worker failed with error "
            "'Only SM 10.x and 11.x are supported', please check the stack trace above for the root cause"
        )
        == "no_attention_backend"
    )


def test_what_the_core_repeats_of_a_worker_is_read_without_its_frame() -> None:
    """vllm-project/vllm, an issue of 2025: the message of a worker, with the core's words around it."""
    failure = failure_of(
        f"{LATER} RuntimeError: Worker failed with error 'CUDAGraphMode.FULL_AND_PIECEWISE is not supported "
        "with FlexAttentionMetadataBuilder backend; please try cudagraph_mode=PIECEWISE', please check the "
        "stack trace above for the root cause"
    )

    assert failure.form is not None
    assert "Worker failed" not in failure.form.means
    assert "stack trace" not in failure.form.remedy
