"""Use cases: plans, logs and probe jobs, their schemas, their text and their errors; without HTTP."""
