from pathlib import Path

from tests.startup_log.statements import statements

SOURCE = """\
def report(tokens):
    logger.info_once(
        "GPU KV cache size: %s tokens",
        tokens,
    )
    logger.warning("GPU KV cache size: %s tokens", tokens)
"""


def test_the_line_is_that_of_the_statement_that_logs(tmp_path: Path) -> None:
    """Python 3.12 logs the line on which a call begins, as vLLM 0.19.0's logs and sources show together."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "kv_cache_utils.py").write_text(SOURCE)

    assert list(statements(tmp_path)) == [("GPU KV cache size: ", "kv_cache_utils.py", 2)]
