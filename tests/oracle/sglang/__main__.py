"""Asks SGLang's own pool configurators about random shapes, and compares their answers with ours.

    python -m tests.oracle.sglang FOLDER [SHAPES] [SEED]

The wheels of the releases come from PyPI; they are unpacked into FOLDER and not installed.
"""

import json
import random
import sys
import zipfile
from collections import Counter
from pathlib import Path
from subprocess import run
from typing import Any, Final

from rich.console import Console

from service.engine_plans.engine_plan import EngineRefused
from service.sglang.pool_bytes import PoolBytes
from service.sglang.pools import PoolQuestion, pools_in
from service.sglang.releases import RELEASES
from service.sglang.server_args import SglangArgs

CONSOLE: Final = Console(markup=False, highlight=False, soft_wrap=True)
RECORDED: Final = ("0.5.20", "0.5.23")
DRIVER: Final = Path(__file__).with_name("driver.py")
ONE_POOL: Final = "DefaultPoolConfigurator"
BY_RATIO: Final = "HybridSWAPoolConfigurator"


def unpacked(folder: Path, release: str) -> Path:
    """Return the folder of a release's wheel; it is fetched where it is missing."""
    place = folder / release
    if not (place / "sglang").exists():
        pip = (sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"sglang=={release}", "-d", folder)
        run(pip, check=True)
        with zipfile.ZipFile(next(folder.glob(f"sglang-{release}-*.whl"))) as wheel:
            wheel.extractall(place)
    return place


def draw(chance: random.Random) -> dict[str, Any]:
    """Return a random shape with random flags."""
    full, window = chance.choice((64, 128, 192, 256, 512)), chance.choice((64, 128, 192, 256))
    return {
        "tp_size": chance.choice((1, 2, 4, 8, 16)),
        "full_heads": chance.choice((1, 2, 4, 8, 16)),
        "window_heads": chance.choice((1, 4, 8, 16)),
        "full_size": full,
        "full_value_size": chance.choice((full, full, 128)),
        "window_size": window,
        "window_value_size": chance.choice((window, window, 128)),
        "full_layers": chance.randint(1, 40),
        "window_layers": chance.randint(1, 60),
        "element_bytes": chance.choice((1, 2)),
        "page_size": chance.choice((1, 1, 16, 32, 64, 128, 256)),
        "window": chance.choice((128, 512, 1024, 4096, 8192)),
        "swa_full_tokens_ratio": chance.choice(
            (0.01, 0.05, 0.1, 0.25, 0.5, 0.8, 1.0, round(chance.random(), 3))
        ),
        "budget": chance.choice((chance.randint(1 << 24, 1 << 30), chance.randint(1 << 30, 150 << 30))),
        "max_running_requests": chance.choice((1, 2, 8, 64, 256)),
        "chunked_prefill_size": chance.choice((512, 2048, 4096, 8192, 16384)),
        "disable_overlap_schedule": chance.random() < 0.3,
    }


def ours(question: dict[str, Any], release: str, configurator: str) -> object:
    """Return our answer in the driver's form."""

    def layer(kind: str) -> int:
        heads = max(1, question[f"{kind}_heads"] // question["tp_size"])
        size: int = heads * (question[f"{kind}_size"] + question[f"{kind}_value_size"])
        element: int = question["element_bytes"]
        return size * element

    full, windows = layer("full") * question["full_layers"], layer("window") * question["window_layers"]
    if configurator == ONE_POOL:
        full, windows = layer("full") * (question["full_layers"] + question["window_layers"]), 0
    sizes = PoolBytes(
        full=full,
        windows=windows,
        full_layers=question["full_layers"],
        window_layers=question["window_layers"],
        window=question["window"],
        keys=0,
        window_keys=0,
        states=0,
        convolution=0,
        is_mla=False,
    )
    args = SglangArgs(
        tp_size=question["tp_size"],
        swa_full_tokens_ratio=question["swa_full_tokens_ratio"],
        max_running_requests=question["max_running_requests"],
        disable_radix_cache=configurator not in {ONE_POOL, BY_RATIO},
        disable_overlap_schedule=question["disable_overlap_schedule"],
    )
    rules, page = RELEASES.named(release)[1], question["page_size"]
    try:
        pools = pools_in(
            PoolQuestion(sizes, args, rules, page, question["chunked_prefill_size"]), question["budget"]
        )
    except EngineRefused as refusal:
        return str(refusal)
    return [pools.full, pools.windows]


def main(folder: Path, shapes: int, seed: int) -> int:
    """Compare; return the number of differences."""
    folder.mkdir(parents=True, exist_ok=True)
    chance, counts = random.Random(seed), Counter[str]()
    for release in RECORDED:
        questions = [draw(chance) for _ in range(shapes)]
        asked = "".join(json.dumps(question) + "\n" for question in questions)
        command = (sys.executable, DRIVER, unpacked(folder, release))
        answers = run(command, input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
        for question, answer in zip(questions, map(json.loads, answers), strict=True):
            for configurator, theirs in answer.items():
                expected = ours(question, release, configurator)
                counts["refused" if isinstance(theirs, str) else "pools"] += 1
                if theirs != expected:
                    counts["differences"] += 1
                    CONSOLE.print(
                        f"{release} {configurator} {question}\n  theirs {theirs}\n  ours {expected}"
                    )
    CONSOLE.print(
        f"{', '.join(RECORDED)}: {shapes} shapes each, {counts['pools']} answers, "
        f"{counts['refused']} refused, {counts['differences']} differ"
    )
    return counts["differences"]


if __name__ == "__main__":
    folder, *numbers = sys.argv[1:]
    shapes, seed = (*map(int, numbers), *(1000, 1)[len(numbers) :])
    sys.exit(1 if main(Path(folder).resolve(), shapes, seed) else 0)
