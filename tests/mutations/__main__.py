"""Plan many configs changed at random and print whatever is not one of our answers: ``make mutations``.

``python -m tests.mutations 100000`` changes the configs that the repository keeps.
"""

import argparse
import sys
from collections import Counter

from service.api.garbage_collection import postpone_full_collections
from tests.mutations.configs import recorded_configs
from tests.mutations.mutation import Trial, trials

SLOW_SECONDS = 0.05


def main() -> None:
    """Run the trials; fail when any ended in an error that is not ours."""
    parser = argparse.ArgumentParser(prog="tests.mutations", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    worst: dict[str, Trial] = {}
    slow, surprises = Counter[str](), list[Trial]()
    slowest: Trial | None = None
    configs = recorded_configs()
    postpone_full_collections()  # as the service does
    for trial in trials(configs, options.count, options.seed):
        slowest = trial if slowest is None or trial.seconds > slowest.seconds else slowest
        kind = trial.change if trial.change.startswith("large") else "small"
        worst[kind] = max(worst.get(kind, trial), trial, key=lambda each: each.seconds)
        slow[trial.model] += trial.seconds > SLOW_SECONDS
        if trial.error is not None:
            surprises.append(trial)
    for trial in surprises:
        sys.stdout.write(f"{trial.model} on {trial.release}: {trial.change}: {trial.error!r}\n")
    sys.stdout.write(
        f"{options.count:,} changed configs: {len(surprises)} errors that are not ours; "
        f"{slow.total()} took more than {SLOW_SECONDS * 1000:.0f} ms of processor time, "
        f"the slowest {0 if slowest is None else slowest.seconds * 1000:.0f} ms\n"
    )
    for trial in worst.values():
        sys.stdout.write(f"{trial.seconds * 1000:.0f} ms: {trial.model} on {trial.release}: {trial.change}\n")
    sys.exit(bool(surprises))


main()
