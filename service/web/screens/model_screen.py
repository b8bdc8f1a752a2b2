"""The model: its layers in order, what each kind caches, bytes of a token by cache dtype."""

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from service.advisor.candidates.plan_types import Plan
from service.application.schemas.answers.architecture import ExplainedArchitecture, LayerKind
from service.web.drawings.model_drawing import LayerCell, layers_drawing
from service.web.figures import plain
from service.web.questions.page_question import PageQuestion

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHOWN_DIMENSIONS = (
    "num_heads", "num_kv_heads", "head_size", "sliding_window", "attention_chunk_size", "kv_lora_rank",
    "intermediate_size", "num_experts", "experts_per_token",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of mixer or network."""

    letter: str
    place: int
    name: str
    layers: int
    dimensions: str


@dataclass(frozen=True, slots=True)
class DtypeRow:
    """Bytes of one token in one cache dtype, on one rank alone."""

    name: str
    first: str
    later: str


@dataclass(frozen=True, slots=True)
class ModelScreen:
    """Everything that the screen shows."""

    facts: tuple[tuple[str, str], ...]
    drawing: Markup
    mixers: tuple[KindRow, ...]
    networks: tuple[KindRow, ...]
    dtypes: tuple[DtypeRow, ...]
    states: tuple[str, ...]

    @property
    def table(self) -> list[list[str]]:
        """Bytes of a token by cache dtype as rows."""
        head = ["cache dtype", "bytes of a token", "bytes of a token beyond windows"]
        return [head, *([each.name, each.first, each.later] for each in self.dtypes)]


def model_screen(plan: Plan, question: PageQuestion) -> ModelScreen:
    """Return the screen for the model of a plan."""
    del question
    model = ExplainedArchitecture.of(plan.model.architecture)
    return ModelScreen(
        facts=tuple(_facts(plan, model)),
        drawing=layers_drawing(list(_cells(model))),
        mixers=tuple(_kind(place, kind, _letter(place)) for place, kind in enumerate(model.attention)),
        networks=tuple(_kind(place, kind, str(place + 1)) for place, kind in enumerate(model.feed_forward)),
        dtypes=tuple(
            DtypeRow(name, f"{each.bytes:,}", f"{each.bytes_beyond_windows:,}")
            for name, each in model.cache_per_token.items()
        ),
        states=tuple(
            f"{each.kind.replace('_', ' ')}, {each.layers} layers: convolution {each.convolution}, "
            f"recurrent {each.recurrent}"
            for each in model.states
        ),
    )


def _facts(plan: Plan, model: ExplainedArchitecture) -> Iterator[tuple[str, str]]:
    yield "Class", plain(model.class_name)
    yield "Weights and activations", model.dtype
    if model.quantization is not None:
        yield "Quantization", plain(model.quantization.method)
    yield "Layers", f"{model.num_layers:,}"
    yield "Hidden size", f"{model.hidden_size:,}"
    yield "Vocabulary", f"{model.vocab_size:,}"
    if model.context.length is not None:
        yield "Context", f"{model.context.length:,} tokens"
    if plan.model.checkpoint_bytes is not None:
        yield "Checkpoint", f"{plan.model.checkpoint_bytes:,} bytes"
    if plan.model.revision is not None:
        yield "Commit", plain(plan.model.revision)


def _cells(model: ExplainedArchitecture) -> Iterator[LayerCell]:
    for run in model.layers:
        kind, network = model.attention[run.attention], model.feed_forward[run.feed_forward]
        words = [kind.kind, network.kind]
        if run.reads_cache_of is not None:
            words.append(f"reads the cache of layer {run.reads_cache_of}")
        if run.state_beside is not None:
            words.append(f"beside {run.state_beside}")
        for number in range(run.first, run.last + 1):
            yield LayerCell(
                number=number,
                letter=_letter(run.attention),
                place=run.attention,
                network=run.feed_forward,
                shares=run.reads_cache_of is not None,
                words=", ".join(words).replace("_", " "),
            )


def _letter(place: int) -> str:
    return LETTERS[place % len(LETTERS)]


def _kind(place: int, kind: LayerKind, letter: str) -> KindRow:
    found = ((name, kind.dimensions.get(name)) for name in SHOWN_DIMENSIONS)
    named = (
        f"{name.replace('_', ' ')} {value:,}" for name, value in found if isinstance(value, int) and value
    )
    return KindRow(letter, place, kind.kind.replace("_", " "), kind.layers, ", ".join(named))
