"""Which facts of a text must agree before an answer is given: calls, the rest of the log, who reports it."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.explanation.whole_classes import whole_classes
from service.startup_log.log import read_log


def _said(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


def _traceback(exception: str, *places: tuple[str, str]) -> str:
    calls = "".join(
        f'  File "/x/site-packages/{path}", line 1, in {name}\n    x()\n' for path, name in places
    )
    return f"Traceback (most recent call last):\n{calls}{exception}\n"


WIDTH = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x5120 and 4096x4096)"


@pytest.mark.parametrize(
    ("file", "helps"), [("medusa.py", "trained for exactly this model"), ("llama.py", "Leave out one by one")]
)
def test_a_width_is_the_draft_s_only_in_the_draft(file: str, helps: str) -> None:
    """The form of vllm-project/vllm#8613: heads for a hidden size of 4096 beside a model of 5120."""
    found = _said(_traceback(WIDTH, (f"vllm/model_executor/models/{file}", "forward")))

    assert (found.cause, helps in found.remedy) == ("tensors_do_not_fit", True)


def test_an_error_that_is_raised_again_behind_words_is_placed_where_it_was_first() -> None:
    """vLLM 0.6.5, worker/model_runner_base.py _wrapper; the form of vllm-project/vllm#11312."""
    again = "Error in model execution (input dumped to /tmp/e.pkl): tuple index out of range"
    first = _traceback(
        "IndexError: tuple index out of range",
        ("vllm/model_executor/layers/logits_processor.py", "_apply_logits_processors"),
        ("vllm/model_executor/guided_decoding/xgrammar_decoding.py", "__call__"),
    )
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    last = _traceback(f"IndexError: {again}", ("vllm/worker/model_runner_base.py", "_wrapper"))

    assert _said(f"IndexError('{again}')\n{first}{chained}{last}").cause == "grammar_failed"


@pytest.mark.parametrize(
    ("function", "file", "cause"),
    [
        ("_get_logits", "vllm/lora/layers.py", "adapter_step_failed"),
        ("from_lora_tensors", "vllm/lora/models.py", "adapter_does_not_fit"),
    ],
)
def test_a_step_with_adapters_is_not_their_loading(function: str, file: str, cause: str) -> None:
    """The form of vllm-project/vllm#16668: prompt_logprobs in a step of an engine with adapters."""
    exception = "RuntimeError: The expanded size of the tensor (58) must match the existing size (3)"

    assert _said(_traceback(exception, (file, function))).cause == cause


def test_the_decorator_of_compilation_says_nothing_of_compilation() -> None:
    """vLLM 0.8.5, compilation/decorators.py __init__ builds each model; as in vllm-project/vllm#17170."""
    text = _traceback(
        "RuntimeError: HIP error: invalid device function",
        ("vllm/compilation/decorators.py", "__init__"),
        ("vllm/model_executor/layers/rotary_embedding.py", "_compute_inv_freq"),
    )

    assert "--enforce-eager" not in _said(text).remedy


PYTEST = """\
    def test_parallel_sampling(vllm_model) -> None:
>       assert len(completion_counts) == n
E       AssertionError: 19 unique completions; expected 20.

v1/engine/test_llm_engine.py:97: AssertionError
"""


def test_a_test_s_own_check_is_no_fault_of_the_engine() -> None:
    """The form of vllm-project/vllm#15855."""
    assert _said(PYTEST).cause == "test_not_passed"


def test_a_call_in_pytest_s_form_is_a_call() -> None:
    """pytest, _pytest/_code/code.py ReprFileLocation; the form of vllm-project/vllm#20158."""
    text = """\
vllm/v1/worker/gpu_model_runner.py:269: in load_model
    self.model = get_model()
    def load_weights(self, weights):
>       param = params_dict[name]
E       KeyError: 'emb_ln.weight'

vllm/model_executor/models/bert.py:381: KeyError
"""
    found = _said(text)

    assert (found.cause, found.message) == ("weights_do_not_fit_the_class", "'emb_ln.weight'")


def test_the_summary_of_tests_repeats_what_a_traceback_says() -> None:
    text = "FAILED lora/test_functions.py::test_sync[True] - Exception: Call to add_lora method failed: x\n"
    report = _traceback("MemoryError", ("vllm/lora/models.py", "from_lora_tensors"))

    assert _said(f"{text}{report}").type == "MemoryError"


def test_who_ends_a_process_that_hangs_does_not_cause_it() -> None:
    """The form of vllm-project/vllm#16588."""
    text = _traceback("KeyboardInterrupt", ("torch/multiprocessing/spawn.py", "join"))
    complaint = "# Support it in offline mode\n\nThe model initialization gets stuck in an infinite hang.\n\n"

    assert (_said(text).cause, _said(f"{complaint}{text}").cause) == ("interrupted", "worker_hangs")


def test_a_missing_package_comes_before_the_end_of_the_engine() -> None:
    """The form of vllm-project/vllm#17875: the server's last words stand above those of its worker."""
    text = """\
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trac
ModuleNotFoundError: No module named 'cupy'
"""
    assert _said(text).cause == "package_missing"


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Qwen2_5_VLModel has no vLLM implementation and", ["Qwen2_5_VLForConditionalGeneration"]),
        ("Model architectures ['LlamaModelX'] are not supported for now. Supported: ['MistralModel']", []),
        ("NewestModel has no vLLM implementation", []),
    ],
)
def test_an_inner_class_is_told_the_class_with_its_head(message: str, names: list[str]) -> None:
    """transformers, models/qwen2_5_vl: the class without its output layer; vllm-project/vllm#15411."""
    offered = list(whole_classes(message))

    assert len(offered) == len(names)
    assert all(name in words for name, words in zip(names, offered, strict=True))


def test_what_says_that_it_ends_nothing_is_no_failure() -> None:
    """Ray 2, src/ray/stats/metric_exporter.cc; the form of vllm-project/vllm#7830."""
    start = "INFO 08-24 10:00:00 [llm_engine.py:176] Initializing an LLM engine (v0.5.3) with config"
    text = "[metric_exporter.cc:105] Export metrics to agent failed: RpcError: RPC Error message: connect"

    assert read_log(f"{start}\n{text}. This won't affect Ray, but you'll lose metrics.").failure is None


def test_a_command_that_ran_collect_env_is_not_the_engine() -> None:
    """The form of vllm-project/vllm#8352, a notebook."""
    text = "CalledProcessError: Command 'python collect_env.py' returned non-zero exit status 134."
    below = "in\nthe\nother\ncell\nnbclient.exceptions.DeadKernelError: Kernel died\n"

    assert _said(f"{text}\n{below}").cause == "process_crashed"


def test_a_library_s_own_error_is_not_of_the_weights_that_are_loaded() -> None:
    """The form of vllm-project/vllm#3796: huggingface_hub asked the Hub while weights were loaded."""
    exception = "TypeError: SafeTensorsInfo.__init__() got an unexpected keyword argument 'sharded'"
    places = (
        ("vllm/model_executor/models/llama.py", "load_weights"),
        ("huggingface_hub/hf_api.py", "__init__"),
    )

    assert _said(_traceback(exception, *places)).cause == "build_does_not_match"


SERVED = """\
(APIServer pid=7) INFO 07-29 17:26:06 [api_utils.py:339] version 0.24.0
(APIServer pid=7) INFO:     Application startup complete.
{}
(APIServer pid=7) ERROR 07-29 17:37:15 [async_llm.py:704] AsyncLLM output_handler failed.
(APIServer pid=7) ERROR 07-29 17:37:15 [async_llm.py:704] Traceback (most recent call last):
(APIServer pid=7) ERROR 07-29 17:37:15 [async_llm.py:704] v1.engine.exceptions.EngineDeadError: EngineCore
"""
STOP = "INFO 07-29 17:37:15 [core.py:1252] [shutdown] EngineCore: trigger received signal=SIGINT"


def test_the_end_of_an_engine_that_was_asked_to_stop_follows_from_that() -> None:
    """vLLM 0.24.0 on logs a stop in order, and an error of its own output handler below it."""
    causes = [_said(SERVED.format(line)).cause for line in (STOP, "")]

    assert causes == ["interrupted", "engine_died_serving"]


def test_a_connector_that_lost_its_partner_is_the_root() -> None:
    """LMCache, v1/distributed_server/naive_server.py; the dump above names torch.compile's folder."""
    dump = "ERROR 11-14 22:12:24 [dump_input.py:69] Dumping input data for V1 LLM engine (v0.9.2) with "
    lost = _traceback(
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        ("vllm/v1/engine/core.py", "step"),
        ("lmcache/v1/distributed_server/naive_server.py", "issue_get"),
    )

    found = _said(f"{dump}'cache_dir': '~/.cache/vllm/torch_compile_cache/d48'\n{lost}")

    assert found.cause == "kv_connector_failed"


def test_a_flag_with_one_dash_is_named_with_two() -> None:
    """The form of vllm-project/vllm#46325; engine/arg_utils.py has the flag since 0.17.0."""
    found = _said("vllm 0.23.0: vllm: error: unrecognized arguments: -language-model-only")

    assert any(each.startswith("--language-model-only") for each in found.offers)


def test_pages_that_cannot_be_made_equal_are_known_by_the_call() -> None:
    """The form of vllm-project/vllm#41560."""
    place = ("vllm/v1/core/kv_cache_utils.py", "unify_kv_cache_spec_page_size")

    assert _said(_traceback("AssertionError", place)).cause == "page_sizes_differ"


@pytest.mark.parametrize(("title", "helps"), [("in async scheduling", True), ("in the scheduler", False)])
def test_what_the_text_names_is_left_out_first(title: str, helps: bool) -> None:
    """The form of vllm-project/vllm#30142; asynchronous scheduling is on by default and logged so."""
    place = ("vllm/v1/core/sched/async_scheduler.py", "_update_request_with_output")
    start = "INFO 12-05 07:26:46 [vllm.py:1006] Asynchronous scheduling is enabled.\n"
    text = f"# An assertion can fail {title}\n\n{start}{_traceback('AssertionError', place)}"

    assert ("First start with --no-async-scheduling" in _said(text).remedy) is helps


@pytest.mark.parametrize(
    ("kernel", "named"), [("_fused_moe_lora_expand", True), ("_fused_moe_kernel", False)]
)
def test_a_kernel_of_adapters_is_told_by_its_name(kernel: str, named: bool) -> None:
    """The name in vLLM 0.21.0, lora/ops/triton_ops/fused_moe_lora_op.py; no call of a traceback is left."""
    found = _said(f"RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered ... {kernel}")

    assert (found.cause, "without --enable-lora" in found.remedy) == ("illegal_memory_access", named)


def _of_torch(level: str, lines: str) -> str:
    place = "/x/site-packages/torch/_inductor/codecache.py:1021] [0/0] "
    return "".join(
        f"[rank0]:{level}0227 04:51:33.500000 20185 {place}{line}\n" for line in lines.splitlines()
    )


@pytest.mark.parametrize(("level", "fails"), [("W", False), ("E", True)])
def test_a_warning_of_torch_shows_an_exception_that_was_handled(level: str, *, fails: bool) -> None:
    """torch 2.9, _inductor/codecache.py: a graph that another rank is just writing is compiled again."""
    handled = "fx graph cache unable to load compiled graph\n" + _traceback(
        "_pickle.UnpicklingError: pickle data was truncated",
        ("torch/_inductor/codecache.py", "iterate_over_candidates"),
    )
    log = _of_torch(level, handled) + "INFO 02-27 04:51:37 [monitor.py:34] torch.compile takes 6.44 s\n"

    assert (read_log(log).failure is not None) == fails


RUNS = "INFO 03-19 04:00:12 [loggers.py:259] Engine 000: Avg generation throughput: 191.4 tokens/s\n"


@pytest.mark.parametrize(
    "reason",
    [
        "FA2 is unavaible due to: libcudart.so.12: cannot open shared object file: No such file or directory",
        "FA2 is only supported on devices with compute capability >= 8",
    ],
)
def test_a_version_of_flash_attention_that_is_not_taken_is_no_failure(reason: str) -> None:
    """vLLM 0.10.2, attention/utils/fa_utils.py get_flash_attn_version, which answers None after this line."""
    line = "ERROR 04-08 14:01:34 [fa_utils.py:57] Cannot use FA version 2 is not supported due to"

    assert read_log(f"{line} {reason}\n{RUNS}").failure is None


def test_the_condition_of_a_test_is_not_what_failed() -> None:
    """The form of pytest 9, whose report shows the source of the test with its marks."""
    mark = "@pytest.mark.skipif(not is_uva_available(), reason='UVA is not available.')"
    source = f"    {mark}\n    def test_a():\n>       f()\n"
    raised = "E       RuntimeError: Only dense CPU tensors can be pinned\n"
    failure = read_log(f"==== FAILURES ====\n____ test_a ____\n\n{source}{raised}").failure

    assert failure is not None
    assert failure.message == "Only dense CPU tensors can be pinned"


def test_metadata_of_a_folder_that_the_hub_does_not_have_end_nothing() -> None:
    """vLLM 0.14.0, transformers_utils/config.py try_get_safetensors_metadata; QwenLM/Qwen3-ASR#15."""
    asked = "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/a'."
    prefix = "(APIServer pid=1) ERROR 01-30 10:43:06 [repo_utils.py:65]"
    line = f"{prefix} Error retrieving safetensors: {asked} Use `repo_type` argument if needed."
    after = "(APIServer pid=1) INFO 01-30 10:43:08 [model.py:1545] Using max model len 65536"

    assert read_log(f"{line}\n{after}\n").failure is None
