"""The parts of a page: each shows one side of a plan, of a log or of probes."""
