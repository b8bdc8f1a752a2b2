"""Builds of kernels, packages that do not go together, and servers that were asked to stop."""

import pytest

from service.application.text.explanation import render_explanation
from service.explanation.explain import explain
from service.startup_log.log import read_log

MIXED_TOOLKITS = """\
(EngineCore pid=930) ERROR 08-19 12:20:55 [core.py:1349]     run_ninja(self.build_dir, verbose)
(EngineCore pid=930) ERROR 08-19 12:20:55 [core.py:1349] RuntimeError: Ninja build failed. Ninja output:
(EngineCore pid=930) ERROR 08-19 12:20:55 [core.py:1349] [1/18] /x/nvidia/cu13/bin/nvcc -c /x/fp4_gemm.cu
(EngineCore pid=930) ERROR 08-19 12:20:55 [core.py:1349] /x/cuda/std/__cccl/cuda_toolkit.h:41:8: error: \
#error "CUDA compiler and CUDA toolkit headers are incompatible, please check your include paths"
"""
"""A log of vLLM on an RTX 5090 of August 2026."""
REFUSED_SOURCE = """\
RuntimeError: Ninja build failed. Ninja output:
[1/2] /usr/local/cuda/bin/nvcc -c /x/a.cu
/x/a.cu(12): error: identifier "__nv_fp4_e2m1" is undefined
ninja: build stopped: subcommand failed.
"""
NO_COMPILER = """\
RuntimeError: Ninja build failed. Ninja output:
/bin/sh: 1: nvcc: not found
ninja: build stopped: subcommand failed.
"""
SHUT_DOWN = """\
^C(APIServer pid=3) INFO 08-19 17:51:11 [launcher.py:112] [shutdown] API server: shutdown triggered
(APIServer pid=3) WARNING 08-19 17:51:11 [utils.py:632] [shutdown] Process manager: force killing count=1
(APIServer pid=3) ERROR 08-19 17:51:11 [async_llm.py:724] Traceback (most recent call last):
(APIServer pid=3) ERROR 08-19 17:51:11 [async_llm.py:724]   File "/x/vllm/v1/engine/core_client.py", \
line 1101, in get_output_async
(APIServer pid=3) ERROR 08-19 17:51:11 [async_llm.py:724]     raise self._format_exception(outputs) from None
(APIServer pid=3) ERROR 08-19 17:51:11 [async_llm.py:724] vllm.v1.engine.exceptions.EngineDeadError: \
EngineCore encountered an issue. See stack trace (above) for the root cause.
(APIServer pid=3) INFO:     Application shutdown complete.
"""
"""The end of a log whose user pressed Ctrl-C, of August 2026."""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (MIXED_TOOLKITS, "kernel_source_refused"),
        (REFUSED_SOURCE, "kernel_source_refused"),
        (NO_COMPILER, "toolchain_missing"),
        ("The conflict is caused by:\n    paddlepaddle-gpu 3.2.0 depends on a==1\n", "install_failed"),
        ("ValueError: Port could not be cast to integer value as 'f3:03::e1:d:52001'\n", "address_not_read"),
        ("KeyError: <PlatformEnum.OOT>\n", "kernels_not_listed_for_platform"),
        ("AttributeError: '_IncludedRouter' object has no attribute 'path'\n", "fastapi_too_new"),
        (
            "The lora adapter 'a' has already been loaded. If you want to load the adapter in place, set\n",
            "adapter_already_loaded",
        ),
    ],
)
def test_the_cause_is_named(text: str, cause: str) -> None:
    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


def test_the_first_error_of_a_compiler_is_shown() -> None:
    failure = read_log(REFUSED_SOURCE).failure
    assert failure is not None
    assert failure.message.endswith('identifier "__nv_fp4_e2m1" is undefined')


def test_a_symbol_without_a_namespace_is_a_kernel_of_the_engine() -> None:
    """C++ mangles ``at::Tensor`` as ``_ZN2at6Tensor``, and a function without a namespace as ``_Z20name``."""
    own, of_torch = (
        explain(read_log(f"ImportError: /x/vllm/_C.abi3.so: undefined symbol: {symbol}\n"), None).ending
        for symbol in ("_Z20cutlass_moe_mm_sm100RN2at6TensorE", "_ZN3c104cuda9SetDeviceEa")
    )
    assert own is not None
    assert of_torch is not None
    assert "kernel of its own" in own.means
    assert "another torch" in of_torch.means


def test_an_engine_that_ends_with_a_stop_has_not_died() -> None:
    text = render_explanation(explain(read_log(SHUT_DOWN), None))
    assert text.startswith("A signal stopped the engine while it ran, on line 1.")


def test_a_change_that_quotes_an_exception_shows_a_failure() -> None:
    text = (
        "[deps] cap fastapi to fix 500\n\n## Summary\n\n```\nValueError: bad\n```\n\n## Test plan\n\nruns\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert (failure.type, failure.message) == ("ValueError", "bad")
