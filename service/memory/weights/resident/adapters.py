"""Room for LoRA adapters: the buffers that a rank allocates for every module that adapters may change."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.engines.rules.adapters import AdapterRules
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact
from service.memory.shards import Shards
from service.memory.weights.modules import (
    Experts,
    Linear,
    Module,
    PlainModule,
)
from service.units import ceil_div, round_up

SOURCE: Final = (
    "room for adapters in closed form; vLLM 0.32.0, lora/layers create_lora_weights and lora/model_manager.py"
)
NONE: Final = exact(0, Basis.COMPUTED, "--enable-lora is off")
PLAIN: Final = frozenset(
    {
        "qkv_proj",
        "o_proj",
        "gate_up_proj",
        "up_proj",
        "down_proj",
        "q_proj",
        "q_b_proj",
        "kv_b_proj",
        "kv_a_proj_with_mqa",
    }
)
"""Modules of the classes that every release makes room for. Others may have classes that it leaves out."""
BY_ROWS: Final = frozenset({"o_proj", "down_proj", "out_proj"})
"""Modules that are split by their inputs."""
REPLICATED: Final = frozenset({"fused_qkv_a_proj", "kv_a_proj_with_mqa"})
"""Modules that every rank has whole."""
VOCABULARY_PADDING: Final = 256
"""vLLM 0.11.0, LoRAConfig.lora_vocab_padding_size."""
MAP_BYTES: Final = 8
FLAG_BYTES: Final = 4
"""A 32-bit word for every adapter, and one for none: vLLM 0.32.0, FusedMoEWithLoRA.adapter_enabled."""


@dataclass(frozen=True, slots=True)
class AdapterSlots:
    """Adapters for which there is room on the GPU."""

    slots: int
    """Adapters of one batch."""
    rank: int
    element_bytes: int
    extra_vocabulary: int = 0
    """Tokens that each may add."""
    fully_sharded: bool = False
    """Both matrices are split over the ranks, not one of them."""
    targets: frozenset[str] = frozenset()
    """Last parts of the names of modules that adapters change; none: all."""


@dataclass(frozen=True, slots=True)
class AdapterRoom:
    """What decides about the buffers for adapters of a start."""

    architecture: ModelArchitecture
    rules: AdapterRules
    slots: AdapterSlots
    shards: Shards

    def of_stage(self, modules: Sequence[Module], *, first: bool, last: bool) -> Estimate:
        """Return the bytes of a pipeline stage's buffers.

        ``modules`` are those of its layers. ``first`` and ``last``: the stage has the embedding, the output.
        Modules whose class may have no adapters widen the interval.
        """
        sure, maybe = self._vocabulary(first=first, last=last)
        for module in modules:
            known, unknown = self._module(module)
            sure, maybe = sure + known, maybe + unknown
        each = self.slots.slots * self.slots.element_bytes
        experts = self.rules.experts and sum(isinstance(module, Experts) for module in modules)
        sure_map, maybe_map = self._vocabulary_map(last=last)
        low = sure * each + FLAG_BYTES * (self.slots.slots + 1) * experts + sure_map
        high = low + maybe * each + maybe_map
        return around(high, low, high, Basis.COMPUTED, SOURCE)

    def _module(self, module: Module) -> tuple[int, int]:
        """Return the elements of one adapter for a module: those that are sure, and those that may be."""
        if isinstance(module, Experts):
            return self._experts(module), 0
        if isinstance(module, Linear) and self._is_target(module):
            size = self._linear(module)
            return (size, 0) if _last(module) in PLAIN else (0, size)
        if isinstance(module, PlainModule) and module.outputs and not self.slots.targets:
            return 0, self.slots.rank * (module.elements // module.outputs + module.outputs)
        return 0, 0

    def _is_target(self, module: Linear) -> bool:
        """Whether adapters change a module: by its own name or by those of its fused projections.

        Source: vLLM 0.19.0 and 0.32.0, lora/utils.py is_in_target_modules.
        """
        names = {_last(module), *module.parts}
        return not self.slots.targets or not self.slots.targets.isdisjoint(names)

    def _linear(self, module: Linear) -> int:
        """Return the elements of a linear layer's buffers: one pair for each fused projection.

        Source: vLLM 0.32.0, BaseLinearLayerWithLoRA and MergedColumnParallelLinearWithLoRA.
        """
        fused = self.architecture.class_name in self.rules.fused_adapters
        first = (1 if fused else max(1, len(module.parts))) * module.inputs
        second, rank, own_rank = sum(module.outputs), self.slots.rank, self.slots.rank
        if self.slots.fully_sharded and _last(module) not in REPLICATED:
            ranks = self.shards.tensor_parallel_size
            by_rows = _last(module) in BY_ROWS
            second = ceil_div(second, ranks) if by_rows else second
            own_rank = rank if by_rows else ceil_div(rank, ranks)
        return own_rank * first + rank * second

    def _experts(self, module: Experts) -> int:
        """Return the elements of a layer's buffers for experts: vLLM 0.32.0, FusedMoEWithLoRA."""
        targets = self.slots.targets
        if not self.rules.experts or (targets and "experts" not in targets):
            return 0
        projections = 2 if module.gated else 1
        firsts = 1 if self.architecture.class_name in self.rules.joined_experts else projections
        width, hidden, rank = module.intermediate_size, module.hidden_size, self.slots.rank
        split = self.slots.fully_sharded and self.shards.expert_parallel_size == 1
        ranks = self.shards.tensor_parallel_size if split else 1
        into = firsts * ceil_div(rank, ranks) * hidden + projections * width * rank
        out = rank * width + ceil_div(hidden, ranks) * rank
        return module.count * (into + out)

    def _vocabulary(self, *, first: bool, last: bool) -> tuple[int, int]:
        """Return the elements for the embedding and the output, which no rank splits: sure, and possible.

        The text model of a multimodal class has a class of its own, which may have such buffers.

        Source: vLLM 0.11.0 and 0.32.0, VocabParallelEmbeddingWithLoRA and LogitsProcessorWithLoRA.
        """
        name, rules = self.architecture.class_name, self.rules
        both, one = name in rules.whole_vocabulary, name in rules.input_embeddings
        inner = self.architecture.multimodal and not (both or one)
        embedding = self._embedding() if first and (both or one or inner) else 0
        output = self._output() if last and (both or inner) else 0
        return (0, embedding + output) if inner else (embedding + output, 0)

    def _vocabulary_map(self, *, last: bool) -> tuple[int, int]:
        """Return the bytes of the table that puts the output of all ranks in order: sure, and possible.

        Source: vLLM 0.12.0 and 0.32.0, LogitsProcessorWithLoRA.sharded_to_full_mapping_gpu: 64-bit words.
        """
        name, rules = self.architecture.class_name, self.rules
        ranks = self.shards.tensor_parallel_size
        if not last or ranks == 1 or not self._output():
            return 0, 0
        size = MAP_BYTES * ranks * self.shards.vocabulary(self.architecture.vocab_size)
        if name in rules.whole_vocabulary:
            return size, 0
        inner = self.architecture.multimodal and name not in rules.input_embeddings
        return (0, size) if inner else (0, 0)

    def _embedding(self) -> int:
        if self.slots.targets and "embed_tokens" not in self.slots.targets:
            return 0
        hidden, extra = self.architecture.hidden_size, self.slots.extra_vocabulary
        return self.slots.rank * (self.architecture.vocab_size + extra + hidden) + extra * hidden

    def _output(self) -> int:
        if self.slots.targets and "lm_head" not in self.slots.targets:
            return 0
        hidden, extra = self.architecture.hidden_size, self.slots.extra_vocabulary
        rows = self.architecture.vocab_size
        if extra:
            rows = round_up(rows + extra, VOCABULARY_PADDING)
        return self.slots.rank * (hidden + rows) + extra * hidden


def _last(module: Linear) -> str:
    """Return the last part of a module's name."""
    return module.name.rpartition(".")[2]
