"""Jobs for workers on GPUs: their leases, their results, and what a log measures."""
