"""Plans as commands to paste."""

from service.advisor.answer import GpuPlan, Plan


def render_commands(plan: Plan) -> str:
    """Write the recommended command for each GPU type, below a comment that names it."""
    return "".join(f"{line}\n" for gpu in plan.plans for line in _lines(gpu))


def _lines(plan: GpuPlan) -> tuple[str, ...]:
    best = plan.recommended
    if best is None:
        return (f"# {plan.gpu.id}: nothing starts",)
    ranks = best.tensor_parallel_size * best.pipeline_parallel_size
    return (
        f"# {ranks} x {plan.gpu.id}, {best.kv_cache_dtype}: {best.verdict.replace('_', ' ')}",
        best.command,
    )
