"""The question of a plan, answered by engines beside vLLM: what each returns, whatever its rules."""
