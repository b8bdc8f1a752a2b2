# ruff: noqa: T201
"""Scores explanations of whole logs: ``python -m tests.explanation FOLDER [CONFIGS]``."""

import argparse
import time
from collections import Counter
from pathlib import Path

from tests.explanation.shared_logs import explained, read_shared


def main() -> None:
    """Print one line for each text that is not right, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("configs", type=Path, nargs="?")
    parser.add_argument("--all", action="store_true", help="print every text")
    specified = parser.parse_args()
    counts: Counter[str] = Counter()
    started = time.process_time()
    for log in read_shared(specified.folder):
        scored = explained(log, specified.configs)
        ending = scored.explanation.ending
        counts.update([scored.verdict, "planned" if scored.planned else "not planned"])
        counts["disagreements"] += len(scored.disagreements)
        if specified.all or scored.verdict not in {"good", "named"} or scored.disagreements:
            shown = "" if ending is None else f"line {ending.line}: {ending.type}: {ending.message[:90]}"
            print(f"{log.id:28} {scored.verdict:14} {scored.named} for {sorted(log.causes)} {shown}")
        if specified.all and scored.explanation.missing:
            for absent in scored.explanation.missing:
                print(f"    not planned: {absent.field}: {absent.why[:120]}")
        for words in scored.disagreements:
            print(f"    X {words}")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print(f"{time.process_time() - started:.1f} s of processor time")


if __name__ == "__main__":
    main()
