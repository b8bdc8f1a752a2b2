"""Asks engines about a model by its config, or llama.cpp about one in GGUF's format, as a request has it."""

from service.application.plans.engine_requests import engines_question
from service.application.plans.gguf_requests import gguf_name, gguf_question
from service.application.schemas.requests.engine_body import EngineBody
from service.application.services import PlanServices
from service.engines_compared.comparison import EnginesCompared, compare_engines
from service.engines_compared.engine_choice import EnginesQuestion
from service.engines_compared.gguf_plan import GgufQuestion, plan_gguf
from service.hub.errors import ConfigNotFound


async def any_question(body: EngineBody, services: PlanServices) -> EnginesQuestion | GgufQuestion:
    """Resolve the names in a request for other engines.

    A repository without a config, but with GGUF files, is read by their header too, whatever its name.

    Raises:
        InvalidRequest: there is neither a model nor a config, or the request is too large.
        InputFault: a value names what does not exist, or a config cannot be read.
        HubError: the model's config or header could not be fetched.
    """
    name = gguf_name(body)
    if name is not None and name.is_explicit:
        return await gguf_question(body, name, services)
    try:
        return await engines_question(body, services)
    except ConfigNotFound as error:
        if name is None or not error.has_ggufs:
            raise
        return await gguf_question(body, name, services)


def answer_of_engines(question: EnginesQuestion | GgufQuestion) -> EnginesCompared:
    """Return what the engines do."""
    return plan_gguf(question) if isinstance(question, GgufQuestion) else compare_engines(question)
