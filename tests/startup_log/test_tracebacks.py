"""Frames in the forms in which Python, IPython and Jupyter print them."""

import pytest

from service.explanation.wanted_lines import ABOVE, BELOW, wanted_lines
from service.startup_log.errors.tracebacks import Frame, frame_of
from service.startup_log.log import read_log
from service.startup_log.text.lines import read_lines

PATH = "/opt/conda/lib/python3.12/site-packages/vllm/entrypoints/llm.py"


@pytest.mark.parametrize(
    "line",
    [
        f'  File "{PATH}", line 214, in __init__',
        f"File {PATH}:214, in LLM.__init__(self, model, tokenizer)",
        # JupyterLab and Visual Studio Code make links of paths.
        f"File [{PATH}:214](http://127.0.0.1:8888{PATH}#line=213), in LLM.__init__(self, model, tokenizer)",
        f"File [{PATH}:214](vscode-remote://wsl%2Bubuntu{PATH}:214), in LLM.__init__",
    ],
)
def test_a_frame_is_read_in_any_form(line: str) -> None:
    (read,) = read_lines(line)

    assert frame_of(read) == Frame(PATH, "__init__")


@pytest.mark.parametrize(
    "line",
    [
        f"File [{PATH}:214](http://127.0.0.1:8888{PATH}), in",
        f"File [{PATH}](http://127.0.0.1:8888{PATH}), in f",
        "File [notes.txt:3](http://127.0.0.1/notes.txt), in f",
    ],
)
def test_other_links_are_no_frames(line: str) -> None:
    (read,) = read_lines(line)

    assert frame_of(read) is None


def test_a_failure_in_a_notebook_is_named_by_its_linked_frames() -> None:
    path = "/opt/lib/python3.12/site-packages/vllm/model_executor/models/abc.py"
    failure = read_log(
        "KeyError                                  Traceback (most recent call last)\n"
        f"File [{path}:9](file://{path}), in AbcModel.load_weights(self, weights)\n"
        "      7     for name, weight in weights:\n"
        "----> 9         params_dict[name]\n\n"
        "KeyError: 'layers.0.abc'\n"
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "weights_do_not_fit_the_class"


def test_the_source_of_a_raise_says_what_is_cut_off_below_it() -> None:
    """Lines of odysseus-dev/odysseus#191: a package that fails while it is imported."""
    log = read_log(
        'transformers/integrations/hub_kernels.py", line 89, in <module>\n'
        '    "cuda": LayerRepository(\n'
        'kernels/layer/layer.py", line 76, in __init__\n'
        '    raise ValueError("Either a revision or a version must be specified.")\n'
    )

    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "build_does_not_match"
    assert log.failure.message == "Either a revision or a version must be specified."


def test_a_frame_of_an_older_notebook_is_read() -> None:
    """A line of ipython/ipython#13840."""
    line = read_lines("/kaggle/usr/lib/vllm_0_7/vllm/utils.py in inner(*args, **kwargs)")[0]

    assert frame_of(line) == Frame("/kaggle/usr/lib/vllm_0_7/vllm/utils.py", "inner")


def test_a_text_that_ends_within_a_traceback_asks_for_the_lines_below_it() -> None:
    """The form of vllm-project/vllm#22709."""
    failure = read_log(
        "INFO 08-12 06:14:08 [cli_args.py:325] non-default args: {'model': 'a/b'}\n"
        "Traceback (most recent call last):\n"
        '  File "/opt/vllm/entrypoints/cli/main.py", line 65, in main\n'
        "    args.dispatch_function(args)\n"
    ).failure

    assert failure is not None
    assert failure.cause is None
    assert wanted_lines(failure) == BELOW


def test_the_source_of_a_check_is_the_exception_where_the_text_ends() -> None:
    """Lines of vllm-project/vllm-gaudi#728."""
    failure = read_log(
        "Traceback (most recent call last):\n"
        '  File "/vllm/vllm/model_executor/models/gemma3.py", line 416, in forward\n'
        "    assert intermediate_tensors is not None\n"
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "model_class_failed"


def test_what_explains_an_exception_below_it_is_none() -> None:
    """Lines of vllm-project/vllm#25060."""
    failure = read_log(
        '  File "/opt/torch/_dynamo/exc.py", line 528, in unimplemented_v2\n'
        "    raise Unsupported(msg)\n"
        "torch._dynamo.exc.Unsupported: Observed exception\n"
        "  Explanation: Dynamo found no exception handler\n"
    ).failure

    assert failure is not None
    assert failure.type == "Unsupported"


def test_a_box_that_is_cut_off_shows_its_frames() -> None:
    """Lines of vllm-project/vllm#490."""
    failure = read_log(
        "\u256d\u2500\u2500 Traceback (most recent call last) \u2500\u2500\u256e\n"
        "\u2502 /workdir/vllm/vllm/transformers_utils/tokenizer.py:36 in get_tokenizer      \u2502\n"
    ).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "tokenizer_not_loaded"


def test_a_wrapper_below_its_frames_is_no_text_that_was_cut() -> None:
    """Lines of vllm-project/llm-compressor#996."""
    failure = read_log(
        '  File "/opt/vllm/entrypoints/openai/api_server.py", line 223, in build_async_engine_client\n'
        "    raise RuntimeError(\n"
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    ).failure

    assert failure is not None
    assert failure.cause is None
    assert failure.message.startswith("RuntimeError: Engine process failed to start")
    assert wanted_lines(failure) == ABOVE


@pytest.mark.parametrize(
    ("frame", "source", "cause"),
    [
        # What the source calls: vllm-project/vllm#21454; a check alone: netease-youdao/QAnything#128.
        (
            "vllm/v1/worker/gpu_model_runner.py|__init__",
            "a, b = compute_encoder_budget(",
            "multimodal_input_not_processed",
        ),
        ("vllm/worker/worker.py|_check_if_gpu_supports_dtype", "", "dtype_not_on_this_gpu"),
        ("vllm/v1/kv_offload/worker/worker.py|transfer_async", "", "kv_connector_failed"),
        ("vllm/v1/engine/core.py|__init__", "super().__init__(", None),
    ],
)
def test_calls_of_a_cut_traceback_show_what_failed(frame: str, source: str, cause: str | None) -> None:
    path, function = frame.split("|")
    failure = read_log(
        f'Traceback (most recent call last):\n  File "/opt/{path}", line 1, in {function}\n    {source}\n'
    ).failure

    assert failure is not None
    assert (failure.cause.name if failure.cause else None) == cause
