"""The full campaign: ``make test-probe`` runs 3,000 jobs under 100 kills on each kind of database."""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console

from tests.reliability.campaign import Account, campaign
from tests.store.postgresql import binaries, new_database, running_postgresql


def main() -> None:
    """Run the campaigns, and exit with 1 where anything was lost."""
    parser = argparse.ArgumentParser(prog="tests.reliability", description=__doc__)
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), action="append")
    options = parser.parse_args()
    console, faults = Console(), 0
    for kind in options.database or ("sqlite", "postgresql"):
        account = _run(kind, options.jobs, options.kills)
        found = account.faults()
        faults += len(found)
        states = ", ".join(f"{n} {state}" for state, n in Counter(account.states.values()).most_common())
        console.print(
            f"{kind}: {len(account.acknowledged)} jobs acknowledged, {account.kills} kills, "
            f"{account.requeued} times back in the queue, {account.seconds:.0f} s: {states}; "
            f"{len(found)} faults"
        )
        for fault in found[:20]:
            console.print(f"  {fault}")
    sys.exit(bool(faults))


def _run(kind: str, jobs: int, kills: int) -> Account:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "sqlite":
            return asyncio.run(campaign(f"sqlite:///{folder}/jobs.db", folder, jobs=jobs, kills=kills))
        programs = binaries()
        if programs is None:
            sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        with running_postgresql(programs) as server:
            return asyncio.run(campaign(new_database(server), folder, jobs=jobs, kills=kills))


if __name__ == "__main__":
    main()
