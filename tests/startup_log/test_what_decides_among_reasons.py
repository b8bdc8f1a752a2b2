"""What a text holds that decides among the reasons of one cause: sizes, calls, other lines, devices."""

import pytest

from service.explanation.diagnosis import diagnose
from service.explanation.explanation_types import Diagnosis
from service.explanation.wanted_lines import OF_ENGINE
from service.startup_log.failures.weight_shapes import relation
from service.startup_log.log import read_log

PACKAGES = "/usr/local/lib/python3.12/dist-packages"
ENGINE_LINE = "(EngineCore_DP0 pid=29) ERROR 01-12 09:26:18 [core.py:866] "


def ending(text: str) -> Diagnosis:
    found = diagnose(read_log(text), None)
    assert found is not None
    return found


def cut_after(*calls: tuple[str, str, str]) -> str:
    """Return the log of a start that is cut off behind these calls, with the source of each."""
    lines = ["EngineCore failed to start.", "Traceback (most recent call last):"]
    for path, function, source in calls:
        lines += [f'  File "{PACKAGES}/{path}", line 1, in {function}', f"    {source}"]
    return "\n".join(f"{ENGINE_LINE}{line}" for line in lines)


@pytest.mark.parametrize(
    ("loaded", "parameter", "name"),
    [
        # vLLM 0.8.5, fp8.py process_weights_after_loading keeps weight.t(); vllm-project/vllm#17272
        ([3840, 1280], [1280, 3840], "transposed"),
        # NVFP4 and MXFP4 are stored as uint8 with two values in each byte
        ([4096, 3584], [4096, 7168], "two_in_a_byte"),
        # pack-quantized: eight 4-bit values in an int32, along the last dimension
        ([4096, 896], [4096, 7168], "eight_in_a_word"),
        # bitsandbytes, functional.py quantize_4bit: n values are ceil(n / 2) bytes in one column
        ([8388608, 1], [4096, 4096], "bitsandbytes"),
        # one token was added to the 32000 of Llama 2
        ([32001, 4096], [32000, 4096], "rows_of_vocabulary"),
        ([4096, 4096], [4096, 4096], ""),
        ([1024, 4096], [4096, 4096], ""),
        ([128256, 4096], [32000, 4096], ""),
        ([4096], [2048], ""),
        ([4096, 0], [4096, 7168], ""),
    ],
)
def test_two_shapes_of_a_weight_say_how_it_is_stored(
    loaded: list[int], parameter: list[int], name: str
) -> None:
    assert relation(loaded, parameter) == name


@pytest.mark.parametrize(
    ("message", "title"),
    [
        (
            "Attempted to load weight (torch.Size([3840, 1280])) into parameter (torch.Size([1280, 3840]))",
            "the engine holds the weight turned round",
        ),
        (
            "Attempted to load weight (torch.Size([32001, 8])) into parameter (torch.Size([32000, 8]))",
            "the vocabulary of the checkpoint has another size",
        ),
        ("Attempted to load weight (torch.Size([5])) into parameter (torch.Size([7]))", ""),
    ],
)
def test_the_shapes_in_a_message_decide_what_does_not_fit(message: str, title: str) -> None:
    """vLLM 0.8.5 default_weight_loader; 0.6.2, parameter.py."""
    found = ending(f"AssertionError: {message}")

    assert (found.cause, found.title) == ("weights_do_not_fit_the_class", title)


@pytest.mark.parametrize(
    ("sizes", "cause"),
    [
        ((1059, 376), "tensors_do_not_fit"),  # vllm-project/vllm#15332, tokens of a step
        ((768, 797), "tensors_do_not_fit"),  # vllm-project/vllm#28390
        ((3072, 6144), "weights_do_not_fit_the_class"),  # vllm-project/vllm#41108, NVFP4
        ((4096, 5120), "weights_do_not_fit_the_class"),
        ((32000, 32001), "weights_do_not_fit_the_class"),
    ],
)
def test_sizes_that_are_no_widths_are_those_of_a_step(sizes: tuple[int, int], cause: str) -> None:
    found = ending(
        f"RuntimeError: The size of tensor a ({sizes[0]}) must match the size of tensor b ({sizes[1]})"
    )

    assert found.cause == cause


@pytest.mark.parametrize(
    ("calls", "cause", "title"),
    [
        # torch 2.9, cuda/__init__.py _lazy_init
        (
            (
                ("vllm/platforms/cuda.py", "set_device", "torch.cuda.set_device(device)"),
                ("torch/cuda/__init__.py", "_lazy_init", "torch._C._cuda_init()"),
            ),
            "gpu_not_ready",
            "CUDA could not be taken into use",
        ),
        # vllm-project/vllm-ascend#3133 and #4744
        (
            (
                ("vllm_ascend/utils.py", "init_ascend_soc_version", "torch_npu.npu.get_soc_version()"),
                ("torch_npu/npu/utils.py", "current_device", "torch_npu.npu._lazy_init()"),
            ),
            "ascend_fault",
            "the NPU could not be taken into use",
        ),
        # vLLM 0.10.2 to 0.33.0, v1/core/kv_cache_utils.py
        (
            (
                ("vllm/v1/engine/core.py", "_initialize_kv_caches", "get_kv_cache_configs("),
                ("vllm/v1/core/kv_cache_utils.py", "check_enough_kv_cache_memory", "raise ValueError("),
            ),
            "kv_cache_smaller_than_one_request",
            "",
        ),
        # vLLM 0.12.0, v1/worker/utils.py request_memory
        (
            (
                ("vllm/v1/worker/gpu_worker.py", "init_device", "request_memory("),
                ("vllm/v1/worker/utils.py", "request_memory", "raise ValueError("),
            ),
            "memory_taken_by_others",
            "",
        ),
        # vLLM 0.8.5 to 0.33.0, entrypoints/openai/api_server.py
        (
            (("vllm/entrypoints/openai/api_server.py", "create_server_socket", "sock.bind(addr)"),),
            "address_in_use",
            "",
        ),
        # huggingface_hub 0.36
        (
            (("huggingface_hub/_snapshot_download.py", "snapshot_download", "thread_map("),),
            "hub_unavailable",
            "",
        ),
        # vllm-project/tpu-inference#2126
        ((("torchax/tensor.py", "t2j_iso", "torch_pytree.tree_map_only("),), "tpu_code_not_traced", ""),
    ],
)
def test_calls_of_a_cut_traceback_that_fail_for_one_reason_show_it(
    calls: tuple[tuple[str, str, str], ...], cause: str, title: str
) -> None:
    found = ending(cut_after(*calls))

    assert (found.cause, found.title) == (cause, title)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (
            "Loading safetensors using Fastsafetensor loader:   0% Completed",
            "the package fastsafetensors is not installed",
        ),
        ("--load-format runai_streamer", "the package runai-model-streamer is not installed"),
        ("INFO 01-12 09:26:17 [model.py:514] Resolved architecture: Qwen2ForCausalLM", ""),
    ],
)
def test_a_package_that_is_loaded_where_it_is_needed_is_named_by_the_text(said: str, title: str) -> None:
    """vLLM 0.12.0, utils/import_utils.py PlaceholderModule."""
    calls = ("vllm/utils/import_utils.py", "__getattr__", "importlib.import_module(name)")
    found = ending(f"{said}\n{cut_after(calls)}")

    assert (found.cause, found.title) == ("package_missing", title)


@pytest.mark.parametrize(
    ("path", "function", "source"),
    [
        ("async_llm.py", "__init__", "self.engine_core = EngineCoreClient.make_async_mp_client("),
        ("core_client.py", "make_async_mp_client", "return AsyncMPClient(*client_args)"),
        ("utils.py", "launch_core_engines", "wait_for_engine_startup("),
    ],
)
def test_calls_of_the_server_that_waits_for_the_engine_ask_for_the_lines_above(
    path: str, function: str, source: str
) -> None:
    """vllm-project/vllm#18302, eugr/spark-vllm-docker#136, community-scripts/ProxmoxVED#2047."""
    text = f'(APIServer pid=1)   File "{PACKAGES}/vllm/v1/engine/{path}", line 1, in {function}\n'
    found = ending(f"{text}(APIServer pid=1)     {source}")

    assert (found.cause, found.wanted) == (None, OF_ENGINE)


def test_a_title_that_quotes_an_error_counts_beside_a_cut_traceback() -> None:
    """vllm-project/vllm#20347, whose text says that it was started with a draft of the model's own layers."""
    title = "# [Bug]: 'DeepSeekMultiTokenPredictor' object has no attribute 'embed_tokens'"
    calls = ("vllm/v1/executor/multiproc_executor.py", "__init__", "self.worker.load_model()")
    found = ending(f"{title}\n\n{cut_after(calls)}")

    assert (found.cause, found.title) == (
        "model_class_failed",
        "the class of the draft lacks what this release asks of it",
    )


def test_source_of_a_traceback_is_no_title() -> None:
    raised = "RuntimeError: Engine core initialization failed. See root cause above."
    lines = ("    with launch_core_engines(", "    raise RuntimeError(", raised)
    text = "\n".join(f"qwen3  | (APIServer pid=1) {line}" for line in lines)

    assert not any("title" in note for note in ending(text).notes)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("# the most recent xla nightly is breaking vllm on TPU", "vLLM recognized no TPU"),  # vllm#12451
        ("docker run --device /dev/davinci0 vllm-ascend", "vLLM recognized no NPU"),
        ("GPU: Intel Arc B580", "vLLM recognized no Intel GPU"),
        ("GPU 0: AMD Radeon RX 7900 XTX", "vLLM recognized no AMD GPU"),
        ("GPU 0: NVIDIA L4", "vLLM recognized no device"),
    ],
)
def test_a_device_that_was_not_recognized_is_of_the_kind_that_the_text_names(said: str, title: str) -> None:
    found = ending(f"{said}\n\nRuntimeError: Failed to infer device type")

    assert (found.cause, found.title) == ("no_gpu_visible", title)


def test_a_platform_without_a_device_cannot_say_what_it_supports() -> None:
    """vllm-project/vllm#17825; vLLM 0.7.3, platforms/interface.py."""
    text = f'  File "{PACKAGES}/vllm/platforms/interface.py", line 204, in is_async_output_supported\n'
    found = ending(
        f"Traceback (most recent call last):\n{text}    raise NotImplementedError\nNotImplementedError"
    )

    assert (found.cause, found.title) == ("no_gpu_visible", "vLLM recognized no device")


EXTENSION = (
    "WARNING 06-13 11:42:20 [_custom_ops.py:11] Failed to import from vllm._C with "
    "ImportError('vllm/_C.abi3.so: undefined symbol: _ZN5torch7LibraryC1ENS0_4KindE')"
)


def test_an_extension_for_another_torch_is_the_failure_where_nothing_follows() -> None:
    """vllm-project/vllm#5501: what `import vllm` prints."""
    found = ending(EXTENSION)

    assert (found.cause, found.title) == (
        "build_does_not_match",
        "vLLM's compiled extension does not fit the installed torch",
    )


def test_an_engine_that_goes_on_without_its_extension_has_not_failed() -> None:
    text = f"{EXTENSION}\nINFO 06-13 11:42:24 [api_server.py:440] vLLM API server version 0.5.0"

    assert diagnose(read_log(text), None) is None


def test_a_kernel_is_missing_because_the_extension_is_for_another_torch() -> None:
    """LMCache/LMCache, the nightly test of macOS."""
    failed = "ImportError('dlopen(_C.abi3.so): Symbol not found')"
    warned = f"WARNING [cpu.py:459] Failed to import from vllm._C: {failed}"
    found = ending(
        f"{warned}\nAttributeError: '_OpNamespace' '_C' object has no attribute 'init_cpu_memory_env'"
    )

    assert found.title == "vLLM's compiled extension does not fit the installed torch"


@pytest.mark.parametrize(
    ("text", "cause", "title"),
    [
        # intel/llm-scaler#304; oneAPI, ur_result_t
        (
            "RuntimeError: UR backend failed. UR backend returns:40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
            "xpu_fault",
            "the Intel GPU has no resources left for the call",
        ),
        # vllm-project/vllm#2416; vLLM 0.2.7, engine/ray_utils.py
        (
            "The number of required GPUs exceeds the total number of available GPUs in the placement group.",
            "ray_cluster_not_ready",
            "the placement group is too small",
        ),
        # Project-HAMi/HAMi#1381
        (
            (
                "AssertionError: Error in memory profiling. Initial free memory 23.4375 GiB, current free"
                " memory 23.4375 GiB.\n[HAMI-core ERROR (utils.c:160)]: host pid is error!"
            ),
            "memory_freed_while_profiling",
            "a vGPU layer reports the free memory wrongly",
        ),
        # vllm-project/vllm#6058: MiniCPM ties its output layer to its embedding
        (
            "KeyError: 'lm_head.weight'",
            "weights_do_not_fit_the_class",
            "the checkpoint has an output layer that the class does not load",
        ),
        (
            "vllm serve x --task embed\nKeyError: 'lm_head.weight'",
            "weights_do_not_fit_the_class",
            "the class has no place for the output layer",
        ),
        (
            "ModuleNotFoundError: No module named 'vllm._C'",
            "build_does_not_match",
            "vLLM's compiled part is missing",
        ),
    ],
)
def test_other_words_of_a_text_decide_what_failed(text: str, cause: str, title: str) -> None:
    found = ending(text)

    assert (found.cause, found.title) == (cause, title)


def test_a_cluster_of_ray_that_is_too_small_is_what_a_start_waits_for() -> None:
    """gpustack/gpustack#5056, whose log ends so; vLLM 0.18.0, v1/executor/ray_utils.py."""
    log = read_log(
        "(EngineCore_DP0 pid=34) WARNING 03-30 14:11:45 [ray_utils.py:352] Tensor parallel size (16) exceeds "
        "available GPUs (8). This may result in Ray placement group allocation failures."
    )
    found = diagnose(log, None)

    assert found is not None
    assert found.title == "the Ray cluster has fewer GPUs than the start has ranks"


@pytest.mark.parametrize(
    ("text", "cause", "title"),
    [
        # vllm-project/vllm#583: the folder holds consolidated.00.pth and params.json
        (
            (
                f'  File "{PACKAGES}/vllm/model_executor/model_loader.py", line 27, in get_model\n'
                "    for arch in architectures:\nTypeError: 'NoneType' object is not iterable"
            ),
            "no_architectures",
            "config.json names no architecture",
        ),
        # A build of vLLM 0.2.1 on a machine of MI210s
        (
            (
                "I want to run vllm on an AMD server with ROCm 5.7\n"
                "RuntimeError: Cannot find CUDA_HOME. CUDA must be available to build the package."
            ),
            "toolchain_missing",
            "a build for CUDA on a machine with AMD GPUs",
        ),
        (
            "RuntimeError: Cannot find CUDA_HOME. CUDA must be available to build the package.",
            "toolchain_missing",
            "",
        ),
        # vLLM 0.11, attention/ops/flashmla.py
        (
            "AssertionError: FlashMLA is not supported on this device. Reason: FlashMLA is only supported on",
            "chosen_backend_refused",
            "FlashMLA does not run on this GPU",
        ),
        # instructlab/instructlab#1988
        (
            "ValueError: Unable to configure handler 'vllm'",
            "environment_variable",
            "the logging could not be set up",
        ),
        # vllm-project/vllm#8732
        (
            (
                "# [Bug]: TypeError: 'NoneType' object is not subscriptable RPCServer process died before "
                "responding to readiness probe"
            ),
            "engine_died_serving",
            "the engine's process did not come up",
        ),
        # unslothai/unsloth#2299
        (
            (
                f'  File "{PACKAGES}/unsloth_zoo/vllm_utils.py", line 1185, in load_vllm\n'
                "    llm = LLM(**engine_args)\n"
                "AttributeError: Can't pickle local object 'patch_vllm_bitsandbytes.<locals>.Config'"
            ),
            "object_not_sent",
            "Unsloth's patches cannot be sent to the engine's process",
        ),
        (
            (
                f'  File "{PACKAGES}/vllm/model_executor/layers/fused_moe/fused_moe.py", line 1, in f\n'
                "    fused_moe_kernel[grid](\n"
                "triton.compiler.errors.CompilationError: at 108:34:\n"
                "            accumulator = tl.dot(a, b, acc=accumulator)\n"
                "                          ^\n"
                "type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ('fp8e4b15',)"
            ),
            "fp8_cache_on_old_gpu",
            "FP8 weights on a GPU without FP8",
        ),
        (
            "GGML_ASSERT(ggml_can_mul_mat(a, b)) failed\nAborted (core dumped)",
            "process_crashed",
            "llama.cpp ended at a check of its own",
        ),
        (
            "ValueError: Async scheduling is not compatible with pipeline_parallel_size > 1.",
            "flags_not_supported_together",
            "",
        ),
    ],
)
def test_a_text_names_the_one_of_several_reasons(text: str, cause: str, title: str) -> None:
    found = ending(text)

    assert (found.cause, found.title) == (cause, title)


def test_frames_with_nothing_between_place_and_function_are_read() -> None:
    """A comment on vLLM's connector for offloading gives its traceback so."""
    text = (
        "vllm/v1/engine/core.py:666  step\nvllm/v1/core/sched/scheduler.py:1873  update_from_output\n"
        "AssertionError"
    )

    failure = read_log(text).failure

    assert failure is not None
    assert [frame.function for frame in failure.frames] == ["update_from_output", "step"]


def test_the_older_engine_logs_an_exception_above_its_traceback() -> None:
    """vllm-project/vllm#10098: a request ends the engine, whose log is cut off."""
    logged = "ERROR 11-07 10:50:10 engine.py:158] "
    failure = read_log(
        "INFO:     Application startup complete.\n"
        f"{logged}TypeError(\"'NoneType' object is not subscriptable\")\n"
        f"{logged}Traceback (most recent call last):\n"
        f'{logged}  File "{PACKAGES}/vllm/engine/multiprocessing/engine.py", line 156, in start\n'
        f"{logged}    self.run_engine_loop()\n"
    ).failure

    assert failure is not None
    assert (failure.type, failure.serving) == ("TypeError", True)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 90.00 MiB."


def raised_in(path: str, function: str, source: str, error: str) -> str:
    """Return the end of a traceback whose innermost call is this one."""
    return f'  File "{PACKAGES}/{path}", line 1, in {function}\n    {source}\n{error}'


@pytest.mark.parametrize(
    ("text", "cause", "title"),
    [
        # vLLM 0.10.2: the same error at four steps of a start, each with a remedy of its own
        (
            raised_in("vllm/model_executor/layers/linear.py", "create_weights", "x = torch.empty(", OOM),
            "out_of_memory",
            "the weights do not fit into the GPU's memory",
        ),
        (
            raised_in(
                "vllm/v1/worker/gpu_worker.py", "determine_available_memory", "self.profile_run()", OOM
            ),
            "out_of_memory",
            "the largest step does not fit beside the weights",
        ),
        (
            raised_in("vllm/v1/worker/gpu_model_runner.py", "capture_model", "self._capture(", OOM),
            "out_of_memory",
            "the CUDA graphs do not fit beside the cache",
        ),
        (
            raised_in("vllm/worker/cache_engine.py", "_allocate_kv_cache", "torch.zeros(", OOM),
            "out_of_memory",
            "the KV cache does not fit into the memory that was left",
        ),
        (OOM, "out_of_memory", ""),
        # safetensors, src/tensor.rs: eight bytes that are the size of the header, which a text makes huge
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "checkpoint_file_damaged",
            "a file of the weights holds a text, such as a pointer of Git LFS",
        ),
        (
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            "checkpoint_file_damaged",
            "a file of the weights is incomplete",
        ),
        (
            "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
            "cuda_compiler_too_old",
            "ptxas is older than this GPU",
        ),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "cuda_compiler_too_old", ""),
        (
            "terminate called after throwing 'std::system_error'\n  what():  Operation not permitted",
            "thread_limit",
            "the container may start no threads",
        ),
        (
            "dtype=torch.float16\nRuntimeError: probability tensor contains either `inf`, `nan`",
            "logits_not_finite",
            "the model's outputs are not finite in float16",
        ),
        (
            "ValueError: The quantization method x is not supported for the current GPU. Minimum capability",
            "dtype_not_on_this_gpu",
            "this quantization needs a newer GPU",
        ),
        (
            "GatedRepoError: 401 Client Error. Cannot access gated repo for url x. Please log in.",
            "hub_access_not_granted",
            "no valid token was sent for the gated model",
        ),
        (
            "GatedRepoError: 403 Client Error. Access to model x: you are not in the authorized list.",
            "hub_access_not_granted",
            "the token's account has no access to the gated model",
        ),
        # A gRPC adapter asks the server for an object of another release
        (
            raised_in(
                "starlette/datastructures.py", "__getattr__", "return x", "KeyError: 'openai_serving_models'"
            ),
            "call_not_known",
            "the server lacks what a program around it asks for",
        ),
        # allenai/open-instruct#427
        (
            "I saved the model that QLoRA merged\nKeyError: 'layers.11.mlp.down_proj.weight'",
            "weights_do_not_fit_the_class",
            "weights in bitsandbytes' 4 bits went through the ordinary loader",
        ),
    ],
)
def test_the_headline_names_the_reason_that_was_decided(text: str, cause: str, title: str) -> None:
    found = ending(text)

    assert (found.cause, found.title) == (cause, title)


def test_source_that_ipython_shows_is_no_error() -> None:
    """facebookresearch/xformers#1138, on Windows, as IPython and as Jupyter show it."""
    path = r"d:\py\lib\site-packages\vllm-0.6.3+cu121.egg\vllm\executor\gpu_executor.py"
    title = "# TypeError: autotune() got an unexpected keyword argument 'use_cuda_graph'\n\n"
    for number in ("36", f"[36](file:///{path}:36)"):
        text = (
            f"{title}File {path}:38, in GPUExecutor._init_executor(self)\n"
            f'     {number}     "GPUExecutor only supports single GPU.")\n'
        )
        assert ending(text).cause == "call_not_known"


@pytest.mark.parametrize("title", ["# Qwen3.5 shows AssertionError", "# vllm-gaudi service fails"])
def test_a_title_that_only_names_gives_way_to_a_cut_traceback(title: str) -> None:
    """xorbitsai/inference#4745 and opea-project/GenAIExamples#1119."""
    calls = cut_after(
        ("vllm/v1/engine/core.py", "run_engine_core", "engine_core = EngineCoreProc(*args)"),
        ("vllm/v1/engine/core.py", "__init__", "super().__init__("),
    )
    found = diagnose(read_log(f"{title}\n\n{calls}"), None)

    assert found is not None
    assert found.cause is None


@pytest.mark.parametrize(
    ("text", "cause", "title"),
    [
        (
            "ImportError: /x/xformers/_C.so: undefined symbol: _ZN3c105ErrorC2E",
            "build_does_not_match",
            "a compiled package is built for another torch",
        ),
        (
            "AttributeError: module 'torch' has no attribute 'float8_e8m0fnu'",
            "build_does_not_match",
            "torch is of another version than the code needs",
        ),
        (
            "ImportError: cannot import name 'ALLOWED_LAYER_TYPES' from 'transformers.configuration_utils'",
            "build_does_not_match",
            "transformers is of another version than the code needs",
        ),
        (
            "ImportError: cannot import name 'FlashAttentionMetadata' from 'vllm.attention.backends'",
            "build_does_not_match",
            "a program asks vLLM for what this release does not have",
        ),
        # huggingface_hub with hf_xet
        (
            "RuntimeError: Data processing error: CAS service error : IO Error: No space left on device",
            "no_space_left",
            "the disk of the Hub's cache is full",
        ),
        (
            "RuntimeError: Expected all tensors to be on the same device, but found cuda:0 and cpu!",
            "tensors_do_not_fit",
            "two tensors of a layer lie on different devices",
        ),
        # vLLM 0.17, layers/mamba/ops/causal_conv1d.py, as people shorten it
        ("AssertionError: num_cache_lines >= batch", "more_requests_than_state_blocks", ""),
        # vLLM 0.10.2, v1/core/encoder_cache_manager.py
        (
            (
                "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (16384) is larger than "
                "max_num_batched_tokens (8192)."
            ),
            "batch_smaller_than_length",
            "one image or video is longer than a step",
        ),
        (
            "ValueError: Model architectures ['XForCausalLM'] are not supported for now. Supported: {}",
            "unknown_architecture",
            "this release does not have the model's class",
        ),
    ],
)
def test_a_message_decides_which_of_two_versions_or_limits(text: str, cause: str, title: str) -> None:
    found = ending(text)

    assert (found.cause, found.title) == (cause, title)
