"""Which of several exceptions of one text is the failure, and what is shown of it."""

from service.startup_log.log import read_log

P = "/usr/local/lib/python3.12/dist-packages/vllm/"
SERVING = "(APIServer pid=1) ERROR 07-01 10:05:00 [serving_chat.py:232] "
CORE = "(EngineCore_DP0 pid=93) ERROR 07-01 10:06:00 [core.py:710] "


def test_the_end_of_the_engine_beats_the_exception_of_a_request() -> None:
    text = (
        f"{SERVING}Error in preprocessing prompt inputs\n{SERVING}Traceback (most recent call last):\n"
        f'{SERVING}  File "{P}entrypoints/openai/serving_chat.py", line 215, in create_chat_completion\n'
        f"{SERVING}ValueError: guided_grammar is of a form that nobody knows\n"
        f"{CORE}EngineCore encountered a fatal error.\n{CORE}Traceback (most recent call last):\n"
        f'{CORE}  File "{P}v1/core/sched/scheduler.py", line 801, in update_from_output\n'
        f"{CORE}KeyError: 'cmpl-1234'\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.type == "KeyError"
    assert failure.serving
    alone = read_log("\n".join(text.split("\n")[:4])).failure
    assert alone is not None
    assert alone.type == "ValueError"


def test_of_a_dead_engine_no_cause_is_said_with_which_it_runs() -> None:
    # vllm-project/vllm#16911
    text = (
        "# [Bug]: guided_grammar example syntax does not work\n\n"
        "ERROR 04-21 00:33:55 [core.py:387] EngineCore hit an exception: Traceback (most recent call last):\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert not failure.refused


def test_a_title_that_is_a_class_alone_yields_to_the_message() -> None:
    # gpustack/gpustack#1205
    text = (
        "HFValidationError\n\n"
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/data/models/R1'. Use `repo_type` argument if needed.\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.line == 3
    assert failure.message.startswith("Repo id must be in the form")


def test_an_exception_printed_as_a_call_keeps_its_own_quotes() -> None:
    line = (
        "ERROR 06-09 03:48:23 [engine.py:164] AttributeError(\"'Qwen3ForCausalLM' object has no "
        "attribute 'pooler'\")"
    )
    failure = read_log(line).failure
    assert failure is not None
    assert failure.message == "'Qwen3ForCausalLM' object has no attribute 'pooler'"
    # vLLM 0.6.3 to 0.9.2, engine/multiprocessing/engine.py: printed so by the loop of an engine that was
    # made.
    assert failure.serving


def test_a_message_does_not_run_into_the_next_traceback() -> None:
    prefix = "(Worker_TP6 pid=800) ERROR 04-30 08:58:52 [multiproc_executor.py:962] "
    text = (
        f'{prefix}  File "/x/torch/_inductor/pattern_matcher.py", line 316, in replace_by_example\n'
        f"{prefix}    assert len(graph_with_eager_vals.graph.nodes) == len(\n"
        f"{prefix}           ^^^^^^^^^^^^^^^^\n"
        f"{prefix}torch._inductor.exc.InductorError: AssertionError: \n"
        f"{prefix}Traceback (most recent call last):\n"
        f'{prefix}  File "/x/vllm/v1/executor/multiproc_executor.py", line 957, in worker_busy_loop\n'
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.message == "AssertionError: assert len(graph_with_eager_vals.graph.nodes) == len("


def test_an_engine_that_people_see_die_at_a_request_had_started() -> None:
    line = "NotImplementedError: this device has no such kernel"
    assert (start := read_log(line).failure) is not None
    assert not start.serving
    told = read_log(f"It starts, but crashes when I send the first request.\n\n{line}\n").failure
    assert told is not None
    assert told.serving


def test_a_person_s_own_folder_may_be_called_after_vllm() -> None:
    frame = 'File "/home/me/vllm-tests/run_all.py", line 7, in <module>'
    engine = 'File "/home/me/vllm/vllm/v1/engine/core.py", line 7, in __init__'
    own = read_log(
        f"Traceback (most recent call last):\n  {frame}\nNameError: name 'x' is not defined\n"
    ).failure
    assert own is not None
    assert own.cause is not None
    assert own.cause.name == "program_fault"
    other = read_log(
        f"Traceback (most recent call last):\n  {engine}\nNameError: name 'x' is not defined\n"
    ).failure
    assert other is not None
    assert other.cause is None or other.cause.name != "program_fault"


def test_a_process_that_is_dying_names_its_signal() -> None:
    failure = read_log("Worker 3 is dying with status code 139").failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "process_crashed"


def test_a_message_keeps_the_marks_of_its_own_words() -> None:
    # transformers 4.42, configuration_llama.py
    failure = read_log("ValueError: `rope_scaling` must be a dictionary with two fields").failure
    assert failure is not None
    assert failure.message == "`rope_scaling` must be a dictionary with two fields"


def test_a_message_that_a_person_wrapped_is_joined() -> None:
    # vLLM 0.19.0, v1/worker/utils.py request_memory
    text = (
        "ValueError: Free memory on device cuda:0 (67.92/121.69 GiB) on startup is less than\n"
        "desired GPU memory utilization (0.7, 85.18 GiB).\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.message.endswith("is less than desired GPU memory utilization (0.7, 85.18 GiB).")


def test_of_a_wrapper_the_exception_is_shown_and_not_its_source() -> None:
    text = (
        '(APIServer pid=1)   File "/x/vllm/v1/engine/utils.py", line 759, in wait_for_engine_startup\n'
        '(APIServer pid=1)     raise RuntimeError("Engine core initialization failed. "\n'
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.line == 3


def test_lines_that_were_joined_are_read_apart() -> None:
    # As vllm-project/vllm#24322 has them: a page that lost the ends of lines.
    text = (
        "My command: vllm serve a/b --tensor-parallel-size 2 & Error message: "
        "(Worker_TP0 pid=11) ERROR 10-13 12:01:14 [multiproc_executor.py:597] WorkerProc failed to start. "
        "(Worker_TP0 pid=11) ERROR 10-13 12:01:14 [multiproc_executor.py:597] Traceback (most recent "
        "call last): "
        "(Worker_TP0 pid=11) ERROR 10-13 12:01:14 [multiproc_executor.py:597] ValueError: heads are odd"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.type == "ValueError"
    assert failure.message == "heads are odd"


def test_an_engine_that_logs_was_installed() -> None:
    title = "# [Bug]: pip based installation failed when requesting the API\n\n"
    begun = "INFO 06-11 15:12:08 [core.py:455] Waiting for init message from front-end.\n"
    alone = read_log(title).failure
    assert alone is not None
    assert alone.cause is not None
    assert alone.cause.name == "install_failed"
    beside = read_log(title + begun).failure
    assert beside is None or beside.cause is None or beside.cause.name != "install_failed"


def test_a_command_of_many_flags_is_no_description() -> None:
    flags = '--tensor-parallel-size 2 --max-model-len 10000 --speculative-config \'{"method": "mtp"}\''
    failure = read_log(f"I ran: vllm serve a/b-8B-FP8 {flags} and got an error").failure
    assert failure is None or failure.cause is None


def test_a_server_that_answers_below_a_failure_has_not_ended() -> None:
    # vLLM 0.10.0 on a CPU without the package: each completion answers 500.
    failed = (
        '  File "/x/vllm/v1/attention/backends/cpu_attn.py", line 587, in forward\n'
        "ModuleNotFoundError: No module named 'intel_extension_for_pytorch'\n"
        'INFO:     127.0.0.1:51088 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error\n'
    )
    goes_on = read_log(failed).failure
    assert goes_on is not None
    assert goes_on.serving
    assert goes_on.answers
    died = read_log(
        f"{failed}vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    ).failure
    assert died is not None
    assert not died.answers


def test_a_class_of_an_extension_can_begin_with_a_small_letter() -> None:
    # ai-dynamo/dynamo#1519: NIXL, src/bindings/python/nixl_bindings.cpp registers nixlNotFoundError
    text = (
        "Traceback (most recent call last):\n"
        f'  File "{P}distributed/kv_transfer/kv_connector/v1/nixl_connector.py", line 601, in '
        "register_kv_caches\n"
        "    self.src_xfer_side_handle = self.nixl_wrapper.prep_xfer_dlist(\n"
        "nixl._bindings.nixlNotFoundError: NIXL_ERR_NOT_FOUND\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("nixlNotFoundError", "NIXL_ERR_NOT_FOUND")
    assert read_log("INFO: uvicorn.error: Started server process [1]\n").failure is None


def test_an_error_that_is_set_beside_the_own_one_did_not_happen() -> None:
    """vllm-project/vllm#53105, shortened: what the engine says of another case."""
    text = """\
[Bug]: bare assert gives no diagnostics on a mismatch of shapes

  File "vllm/model_executor/parameter.py", line 94, in _assert_and_load
      assert self.data.shape == loaded_weight.shape or self._is_1d_and_scalar(
  AssertionError

vLLM reports the analogous case well: it raises ValueError: No available memory for the cache blocks.
"""
    failure = read_log(text).failure
    assert failure is not None
    assert failure.type == "AssertionError"
    assert failure.cause is not None
    assert failure.cause.name == "weights_do_not_fit_the_class"
