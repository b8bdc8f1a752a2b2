"""Frames in the forms in which Python, IPython and Jupyter print them."""

import pytest

from service.startup_log.lines import read_lines
from service.startup_log.log import read_log
from service.startup_log.tracebacks import Frame, frame_of

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
