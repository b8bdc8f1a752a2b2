"""The worker on a node with GPUs: it leases jobs, runs them in child processes, and reports results."""
