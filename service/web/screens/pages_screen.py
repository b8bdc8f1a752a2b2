"""Pages and groups: what one block id costs in each KV cache group, and the blocks of one request."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from service.advisor.candidates.plan_types import Candidate, Plan
from service.advisor.dry_runs.layer_pages import layer_pages
from service.advisor.words.pooling_words import pooling_sentence
from service.engine_config.engine_config import RequestDemand
from service.engines.refusal import Stage
from service.kv_cache.groups import Group
from service.kv_cache.specs import AttentionSpec, LayerSpec, SpecLayers
from service.web.drawings.pages_drawing import BlockRow, RequestRow, blocks_drawing, request_drawing
from service.web.figures import percent, plain
from service.web.questions.page_question import PageQuestion
from service.web.questions.starts import fix_question
from service.web.screens.answer_screen import shown_candidate


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Equal groups in the table."""

    name: str
    times: int
    layers: int
    block_size: str
    page: str
    made_of: str
    padding: str
    blocks: str


@dataclass(frozen=True, slots=True)
class PagesScreen:
    """Everything that the screen shows."""

    words: str
    blocks: Markup
    request: Markup
    rows: tuple[GroupRow, ...]
    sum: str
    """The concurrency as the sum that it is; empty without a cache."""
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    fixes: tuple[tuple[str, str], ...]
    """Changes that get past a refusal, each with its link."""

    @property
    def table(self) -> list[list[str]]:
        """The groups as rows."""
        head = [
            "groups",
            "kind",
            "layers",
            "block tokens",
            "page bytes",
            "made of",
            "padding",
            "blocks a request",
        ]
        return [
            head,
            *(
                [
                    str(row.times),
                    row.name,
                    str(row.layers),
                    row.block_size,
                    row.page,
                    row.made_of,
                    row.padding,
                    row.blocks,
                ]
                for row in self.rows
            ),
        ]


@dataclass(frozen=True, slots=True)
class AlikeGroups:
    """Groups that differ in nothing but their layers."""

    group: Group
    times: int
    place: int
    """Position among the kinds of groups, which decides colour and number."""

    @property
    def name(self) -> str:
        """What its layers are: ``5 groups of 10 sliding window layers``."""
        groups = "1 group" if self.times == 1 else f"{self.times} groups"
        layers = f"{self.group.num_layers} {_kind_words(self.group.kind)} layer"
        return f"{groups} of {layers}{'s' if self.group.num_layers > 1 else ''}"


def pages_screen(plan: Plan, question: PageQuestion) -> PagesScreen:
    """Return the screen for the plan of one GPU type."""
    shown = shown_candidate(plan.plans[0])
    fixes = () if shown.error is None else shown.error.fixes
    links = tuple(
        (fix.change, fix_question(question, fix, plan.plans[0].gpu).changed(view="pages").link())
        for fix in fixes
    )
    if shown.start is None or not shown.start.layout.stages:
        return _ungrouped(plan, shown, links)
    return _grouped(shown, links)


def _grouped(shown: Candidate, links: tuple[tuple[str, str], ...]) -> PagesScreen:
    start, cache = shown.start, shown.kv_cache
    if start is None:
        raise ValueError("a start without groups has none to draw")
    length = start.engine_config.max_model_len if cache is None else cache.max_model_len
    demand = start.engine_config.demand(length)
    alike = alike_groups(start.layout.stages[0])
    size = (
        max((each.group.bytes_per_block for each in alike), default=0)
        if cache is None
        else cache.bytes_per_block
    )
    rows = tuple(_group_row(each, demand) for each in alike)
    return PagesScreen(
        words=f"A block id is the same number of bytes in every group: {size:,} B on one rank.",
        blocks=blocks_drawing([_block_row(each, size) for each in alike], size),
        request=request_drawing([_request_row(each, demand) for each in alike], length),
        rows=rows,
        sum="" if cache is None else concurrency_sum(shown, alike, demand),
        sentences=() if shown.error is None else (plain(shown.error.message), plain(shown.error.detail)),
        notes=shown.notes,
        fixes=links,
    )


def alike_groups(groups: Sequence[Group]) -> tuple[AlikeGroups, ...]:
    """Put equal neighbours together."""
    held = [group for group in groups if group.layers]
    runs = (list(run) for _, run in groupby(held, key=_likeness))
    return tuple(AlikeGroups(run[0], len(run), place) for place, run in enumerate(runs))


def _likeness(group: Group) -> tuple[object, ...]:
    return group.kind, group.num_layers, group.page_size, group.specs


def concurrency_sum(shown: Candidate, alike: Sequence[AlikeGroups], demand: RequestDemand) -> str:
    """Return the sum behind the concurrency: ``9,453 / (4,096 + 5 x 193) = 1.87``."""
    cache = shown.kv_cache
    if cache is None:
        return ""
    counted = [(each.group.blocks_per_request(demand), each.times) for each in alike]
    blocks = f"{cache.blocks_per_request:,}"
    if sum(number * times for number, times in counted) == cache.blocks_per_request:
        ordered = sorted(counted, reverse=True)
        terms = [f"{times} x {number:,}" if times > 1 else f"{number:,}" for number, times in ordered]
        blocks = terms[0] if len(terms) == 1 and counted[0][1] == 1 else f"({' + '.join(terms)})"
    return f"{cache.num_blocks:,} / {blocks} = {cache.max_concurrency:,.2f}"


def _group_row(alike: AlikeGroups, demand: RequestDemand) -> GroupRow:
    group = alike.group
    padding = group.page_size - group.unpadded_page_size
    return GroupRow(
        name=_kind_words(group.kind),
        times=alike.times,
        layers=group.num_layers,
        block_size=f"{group.spec.block_size:,}",
        page=f"{group.page_size:,}",
        made_of=made_of(group.spec) if not group.uniform_type else "pages of different sizes",
        padding=f"{padding:,} ({percent(padding, group.page_size)})" if padding else "0",
        blocks=f"{group.blocks_per_request(demand):,}",
    )


def _block_row(alike: AlikeGroups, size: int) -> BlockRow:
    group = alike.group
    pages = 1 if group.uniform_type else group.num_layers
    return BlockRow(alike.name, alike.place, pages, group.page_size, group.unpadded_page_size, size)


def _request_row(alike: AlikeGroups, demand: RequestDemand) -> RequestRow:
    spec, blocks = alike.group.spec, alike.group.blocks_per_request(demand)
    times = "" if alike.times == 1 else f"{alike.times} x "
    name = f"{times}{_kind_words(alike.group.kind)}"
    if not isinstance(spec, AttentionSpec):
        return RequestRow(name, alike.place, blocks, 0, 0, None)
    held = spec.retained_tokens(demand)
    window = spec.sliding_window if spec.is_windowed else spec.attention_chunk_size
    return RequestRow(name, alike.place, blocks, spec.block_size, held, window)


def _kind_words(kind: str) -> str:
    return "recurrent state" if kind == "mamba" else kind.replace("_", " ")


def made_of(spec: LayerSpec) -> str:
    """Return the factors of an unpadded page."""
    if not isinstance(spec, AttentionSpec):
        return f"one state of {spec.state_bytes:,} B"
    tokens = spec.block_size // spec.tokens_per_state
    head = spec.format.head_bytes(spec.head_size, spec.head_size_v)
    heads = f"{spec.num_kv_heads} head{'s' if spec.num_kv_heads > 1 else ''}"
    return f"{head:,} B for each token and head x {heads} x {tokens:,} tokens"


def _ungrouped(plan: Plan, shown: Candidate, links: tuple[tuple[str, str], ...]) -> PagesScreen:
    """Return the screen of a start that never gets groups: the pages of its layers side by side."""
    caches = layer_pages(shown, plan.plans[0].gpu)
    largest = max((cache.spec.page_size for cache in caches), default=0)
    error = shown.error
    engines = () if error is None else tuple(filter(None, (plain(error.message), plain(error.detail))))
    sentences = (
        (*engines, *page_sentences(caches)) if error is None or error.stage is Stage.PAGE_SIZE else engines
    )
    words = "The start ends before the layers have pages."
    if caches:
        words = "The start ends before there are groups. This is one page of each kind of layer."
    elif shown.caches_nothing:
        words = pooling_sentence(shown)
    return PagesScreen(
        words=words,
        blocks=blocks_drawing(
            [_layer_row(place, cache, largest) for place, cache in enumerate(caches)], largest
        ),
        request=Markup(),
        rows=tuple(_cache_row(cache) for cache in caches),
        sum="",
        sentences=sentences,
        notes=(),
        fixes=links,
    )


def _layer_row(place: int, cache: SpecLayers, largest: int) -> BlockRow:
    spec = cache.spec
    misfits = largest % spec.page_size != 0
    size = largest if misfits else spec.page_size
    name = f"{cache.count} {_kind_words(spec.kind)} layers"
    return BlockRow(name, place, 1, spec.page_size, spec.unpadded_page_size, size, misfits)


def _cache_row(cache: SpecLayers) -> GroupRow:
    spec = cache.spec
    padding = spec.page_size - spec.unpadded_page_size
    return GroupRow(
        _kind_words(spec.kind),
        0,
        cache.count,
        f"{spec.block_size:,}",
        f"{spec.page_size:,}",
        made_of(spec),
        f"{padding:,}",
        "",
    )


def page_sentences(caches: Sequence[SpecLayers]) -> Iterator[str]:
    """Say which pages do not go into the largest, and what size would.

    The engine makes pages equal by blocks of more tokens: the smaller page times a whole number.
    """
    largest = max((cache.spec.page_size for cache in caches), default=0)
    for spec in dict.fromkeys(cache.spec for cache in caches):
        if largest % spec.page_size == 0:
            continue
        times = largest // spec.page_size
        words = (
            f"{largest:,} / {spec.page_size:,} = {largest / spec.page_size:.3f} is not a whole number, so "
            "no number of tokens in a block makes the pages equal."
        )
        fitting = largest // times
        yield f"{words} {_fitting_words(spec, fitting, times)}" if fitting * times == largest else words


def _fitting_words(spec: LayerSpec, fitting: int, times: int) -> str:
    more = percent(fitting - spec.page_size, spec.page_size)
    words = f"A page of {fitting:,} B (+{more}) would go into it {times} times"
    if not isinstance(spec, AttentionSpec):
        return f"{words}."
    slots = spec.block_size // spec.tokens_per_state * spec.num_kv_heads
    head = spec.format.head_bytes(spec.head_size, spec.head_size_v)
    if fitting % slots:
        return f"{words}."
    return f"{words}: {fitting // slots:,} B for each token and head instead of {head:,}."
