"""Changes that get past a refusal, each tried by a dry run."""
