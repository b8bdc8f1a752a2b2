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


def test_long_reasons_of_a_wide_table_are_notes_that_equal_rows_share() -> None:
    words = "None of 7 attention backends fits. Nearest: TRITON_MLA (sparse not supported)"
    rows = [ROWS[0], {**ROWS[1], "why": words}, {**ROWS[1], "GPU": "a2-16gb", "why": words}]
    lines = drawn(COLUMNS, rows, 110)
    assert [line.split()[-1] for line in lines[3:5]] == ["(1)", "(1)"]
    assert " ".join(" ".join(lines[5:]).split()) == f"(1) {words}"
    many = [{**ROWS[1], "why": f"{place} is a reason of its own that is too long"} for place in range(20)]
    assert len(drawn(COLUMNS, [ROWS[0], *many], 110)) == len(many) + 3
