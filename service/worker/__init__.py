"""The worker on a node with GPUs: asks for jobs, runs them in children, hands results in."""
