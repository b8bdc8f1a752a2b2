"""Tables in a narrow terminal say what they leave out, and keep what they are sorted by."""

from service.application.text.layout import Column, drawn

COLUMNS = (
    Column("GPU", left=True),
    Column("tokens", spare=2),
    Column("GiB", spare=1),
    Column("why", left=True, below=True),
)
ROWS = [
    {"GPU": "h100-sxm-80gb" * 4, "tokens": "228,798", "GiB": "79.18", "why": ""},
    {
        "GPU": "l4-24gb",
        "tokens": "-",
        "GiB": "22.04",
        "why": "27.19 GiB of weights on one GPU, which has 22.04",
    },
]


def test_a_narrow_table_names_the_columns_that_it_leaves_out() -> None:
    lines = drawn(COLUMNS, ROWS, 64)
    assert "tokens" not in lines[0]
    assert "GiB" in lines[0]
    assert lines[-1] == "A wider terminal also shows: tokens."
    assert all(len(line) <= 64 for line in lines)
    assert "  27.19 GiB of weights on one GPU, which has 22.04" in lines


def test_the_column_of_the_order_stays() -> None:
    lines = drawn(COLUMNS, ROWS, 64, kept="tokens")
    assert "tokens" in lines[0]
    assert lines[-1] == "A wider terminal also shows: GiB."


def test_a_wide_table_has_all_columns() -> None:
    lines = drawn(COLUMNS, ROWS, 160)
    assert len(lines) == len(ROWS) + 2
    assert lines[0].split() == ["GPU", "tokens", "GiB", "why"]
