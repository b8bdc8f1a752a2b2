"""Plans as commands to paste."""

from service.advisor.answer import GpuPlan, Plan


def render_commands(plan: Plan) -> str:
    """Write the recommended command for each GPU type.

    One GPU type gives the bare command, for a shell to run; several are told apart by comments.
    """
    single = len(plan.plans) == 1
    return "".join(f"{line}\n" for gpu in plan.plans for line in _lines(gpu, bare=single))


def _lines(plan: GpuPlan, *, bare: bool) -> tuple[str, ...]:
    best = plan.recommended
    if best is None:
        return (f"# {plan.gpu.id}: nothing starts",)
    if bare:
        return (best.command,)
    ranks = best.tensor_parallel_size * best.pipeline_parallel_size
    verdict = best.verdict.replace("_", " ")
    return (f"# {ranks} x {plan.gpu.id}, {best.kv_cache_dtype}: {verdict}", best.command)
