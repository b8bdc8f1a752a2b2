"""Answers of the last plans as they were written, for the same question asked again.

A question is the same where its query, its body and the media types that it accepts are the same bytes. Its
answer is used only while the model is the one that is believed now and the calibration is the one that the
answer was made with, so that it is the answer that would be made again.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import Model
from service.api.dependencies import HUB_TOKEN
from service.api.metrics import Metrics
from service.api.raw_headers import header
from service.application.recent_models import ModelKey
from service.application.services import Services
from service.memory.calibration import Calibration

MOST_BYTES: Final = 16 << 20
"""Bytes of all stored questions and answers."""
LONGEST: Final = 256 << 10
"""Bytes of the longest question with its answer that is stored."""
ENTRY_BYTES: Final = 1024
"""Bytes counted for an entry beside its question and answer."""

Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]
Answer = TypeVar("Answer", Response, Response | None)


@dataclass(frozen=True, slots=True)
class QuestionAsked:
    """A question as it was sent."""

    method: str
    query: bytes
    body: bytes
    accept: str

    @property
    def size(self) -> int:
        """Bytes of its texts."""
        return len(self.query) + len(self.body) + len(self.accept)


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """An answer, and what it was made from."""

    key: ModelKey
    model: Model
    calibration: Calibration
    content: bytes
    media_type: str
    verdicts: Mapping[Verdict, int]
    """How many candidates were planned, by verdict."""

    def response(self) -> Response:
        """Return the answer."""
        return Response(self.content, media_type=self.media_type)

    def holds(self, services: Services) -> bool:
        """Whether the same answer would be made now."""
        if services.probes.learned.current is not self.calibration:
            return False
        return services.recent_models.find(self.key) is self.model


class WrittenAnswers:
    """The answers that were asked for last; only the event loop's thread uses it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._answers: OrderedDict[QuestionAsked, WrittenAnswer] = OrderedDict()

    def find(self, question: QuestionAsked, services: Services) -> WrittenAnswer | None:
        """Return the answer to a question, if it would be made again now."""
        found = self._answers.get(question)
        if found is None or not found.holds(services):
            return None
        self._answers.move_to_end(question)
        return found

    def store(self, question: QuestionAsked, answer: WrittenAnswer) -> None:
        """Store an answer; those that were not asked for longest go where there are too many bytes."""
        if question.size + len(answer.content) > min(LONGEST, self._most):
            return
        self._drop(question)
        self._answers[question] = answer
        self._bytes += _size(question, answer)
        while self._bytes > self._most:
            self._drop(next(iter(self._answers)))

    def _drop(self, question: QuestionAsked) -> None:
        answer = self._answers.pop(question, None)
        if answer is not None:
            self._bytes -= _size(question, answer)


def _size(question: QuestionAsked, answer: WrittenAnswer) -> int:
    return question.size + len(answer.content) + ENTRY_BYTES


class AnsweredBefore(APIRoute):
    """A route that answers a question from the stored answers before it is parsed."""

    def get_route_handler(self) -> Handler:
        """Return the handler, which leaves all other questions to that of FastAPI."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            if HUB_TOKEN in request.headers:
                return await handler(request)
            return await answered(request, await request.body(), lambda: handler(request))

        async def varying(request: Request) -> Response:
            # A browser gets another answer at the same address.
            response = await answer(request)
            response.headers.add_vary_header("Accept")
            return response

        return varying


async def answered(request: Request, body: bytes, answer: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the stored answer to a request, or the new one that ``answer`` makes.

    Raises:
        Overloaded: a new one would wait in the lane of large work, where so much waits already.
    """
    state = request.app.state
    question = question_asked(request.scope, body)
    found = state.answers.find(question, state.services)
    if found is not None:
        count_verdicts(found.verdicts, state.metrics)
        response: Response = found.response()
        return response
    request.state.question = question
    if not names_no_gpu(question):
        return await answer()
    # What is refused is refused before it is parsed, which takes longer than the refusal.
    with state.lanes.large.admit(request):
        return await answer()


def question_asked(scope: Scope, body: bytes) -> QuestionAsked:
    """Return the question of a request with a body."""
    accept, kind = header(scope, b"accept"), header(scope, b"content-type")
    return QuestionAsked(scope["method"], scope["query_string"], body, f"{accept}\n{kind}")


def names_no_gpu(question: QuestionAsked) -> bool:
    """Whether the text of a question names no GPU type, so that it is about all of them."""
    return b"gpu" not in question.body and b"gpu" not in question.query


def store_answer(request: Request, answer: WrittenAnswer) -> None:
    """Store the answer to a request, unless it came with a token or its model may differ now."""
    question, state = getattr(request.state, "question", None), request.app.state
    if question is not None and answer.holds(state.services):
        state.answers.store(question, answer)


def count_verdicts(verdicts: Mapping[Verdict, int], metrics: Metrics) -> None:
    """Count the candidates of an answer."""
    for verdict, number in verdicts.items():
        metrics.count_candidates(verdict, number)
