"""A model that was just read is neither fetched nor read again; what changed is read anew."""

from dataclasses import replace

from service.application.catalogs.model_reading import read_model
from service.application.plans.plan_requests import plan_request, read_plan_body
from service.application.recent_models import BELIEVED_SECONDS, MOST_MODELS, ModelKey, RecentModels
from service.application.services import Services
from service.engines.releases import RELEASES, rules_for
from service.hub.model_files.fetched_config import FetchedConfig
from service.hub.model_source import ModelSource
from service.hub.transport.credential import callers_own

BODY = read_plan_body({"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]})


class Counted(ModelSource):
    """A source that counts what is asked of it, and can change what it answers."""

    def __init__(self, source: ModelSource, *, is_shared: bool = True) -> None:
        self._source, self._is_shared = source, is_shared
        self.asked = 0
        self.changes: dict[str, object] = {}

    def local(self, model_id: str) -> FetchedConfig | None:
        return self._source.local(model_id)

    @property
    def is_shared(self) -> bool:
        return self._is_shared

    async def resolve(self, model_id: str, revision: str | None = None) -> FetchedConfig:
        self.asked += 1
        fetched = await self._source.resolve(model_id, revision)
        return replace(fetched, config={**fetched.config, **self.changes})


def _with_clock(services: Services, *, is_shared: bool = True) -> tuple[Services, Counted, list[float]]:
    source, now = Counted(services.models, is_shared=is_shared), [0.0]
    recent = RecentModels(lambda: now[0])
    return replace(services, models=source, recent_models=recent), source, now


async def test_the_second_question_asks_nobody(services: Services) -> None:
    own, source, now = _with_clock(services)
    first = await plan_request(BODY, own)
    now[0] = BELIEVED_SECONDS - 0.1
    assert (await plan_request(BODY, own)).model is first.model
    assert source.asked == 1


async def test_after_some_seconds_the_files_are_compared(services: Services) -> None:
    own, source, now = _with_clock(services)
    first = await plan_request(BODY, own)
    now[0] = BELIEVED_SECONDS
    assert (await plan_request(BODY, own)).model is first.model
    assert source.asked == 2
    source.changes = {"num_hidden_layers": 3}
    assert len((await plan_request(BODY, own)).model.architecture.layers) == 36
    now[0] = 3 * BELIEVED_SECONDS
    assert len((await plan_request(BODY, own)).model.architecture.layers) == 3


async def test_what_a_callers_own_token_opens_is_not_stored(services: Services) -> None:
    own, source, _ = _with_clock(services, is_shared=False)
    await plan_request(BODY, own)
    await plan_request(BODY, own)
    assert source.asked == 2
    assert not services.models.on_behalf_of(callers_own("hf_" + "a" * 34)).is_shared


async def test_other_rules_read_the_model_anew(services: Services) -> None:
    own, source, _ = _with_clock(services)
    for version in (RELEASES[0], RELEASES[-1]):
        body = BODY.model_copy(update={"engine": BODY.engine.model_copy(update={"version": str(version)})})
        await plan_request(body, own)
    assert source.asked == 2


async def test_the_number_of_models_is_bounded(services: Services) -> None:
    fetched = await services.models.resolve("Qwen/Qwen3-8B")
    model = read_model(fetched)
    recent, rules = RecentModels(), rules_for(RELEASES[-1]).checkpoints
    keys = [ModelKey.of(f"acme/{number}", None, rules) for number in range(MOST_MODELS + 1)]
    for key in keys:
        recent.store(key, fetched, model)
    assert [recent.find(key) for key in keys] == [None, *[model] * MOST_MODELS]
