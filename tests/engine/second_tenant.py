"""Another process that uses a GPU: takes a share of its memory, says so, and waits to be ended.

Run by the Python of an environment with torch: ``python second_tenant.py 0.6``.
"""

import sys


def main() -> None:
    """Take the memory, and wait for the end of the input."""
    import torch  # noqa: PLC0415 - only the node's environment has it

    free, total = torch.cuda.mem_get_info()
    size = min(int(total * float(sys.argv[1])), free - (1 << 30))
    taken = torch.empty(size, dtype=torch.uint8, device="cuda")
    taken.fill_(1)
    torch.cuda.synchronize()
    print(size, flush=True)  # noqa: T201
    sys.stdin.read()


if __name__ == "__main__":
    main()
