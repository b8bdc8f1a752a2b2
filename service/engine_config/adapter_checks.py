"""What the engine checks of LoRA adapters."""

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.adapters import AdapterRules

DEFAULT_RANK = 16
"""vLLM 0.10.2 to 0.32.0, LoRAConfig.max_lora_rank."""


def check_flags(flags: ServeFlags, rules: AdapterRules) -> None:
    """Refuse a rank that the release does not know, and fewer stored adapters than a batch has.

    Source: vLLM 0.11.0 and 0.32.0, config/lora.py LoRAConfig.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if not flags.enable_lora:
        return
    rank, slots = flags.max_lora_rank or DEFAULT_RANK, flags.max_loras or 1
    if rank not in rules.ranks:
        error, words = rules.rank_refusal
        listed = ", ".join(map(str, rules.ranks))
        raise EngineRefusal(Stage.CONFIG, words.format(rank=rank, ranks=listed), type=error)
    extra = flags.lora_extra_vocab_size
    if extra is not None and rules.extra_vocabulary and extra not in rules.extra_vocabulary:
        words = f"LoRAConfig: Value error, lora_extra_vocab_size ({extra}) must be one of "
        raise EngineRefusal(Stage.CONFIG, f"{words}{rules.extra_vocabulary}.", type="ValidationError")
    if flags.max_cpu_loras is not None and flags.max_cpu_loras < slots:
        error, words = rules.slot_refusal
        raise EngineRefusal(Stage.CONFIG, words.format(stored=flags.max_cpu_loras, slots=slots), type=error)


def check_model(architecture: ModelArchitecture, flags: ServeFlags, rules: AdapterRules) -> None:
    """Refuse a model class without adapters, and experts that cannot have them.

    Source: vLLM 0.11.0 to 0.32.0, LoRAModelRunnerMixin.load_lora_model; 0.11.1 and 0.32.0, FusedMoEWithLoRA.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if not flags.enable_lora:
        return
    name = architecture.class_name
    if name in rules.unsupported:
        raise EngineRefusal(Stage.MODEL, f"{name} does not support LoRA yet.", type="ValueError")
    layers = architecture.distinct_layers
    sparse = any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers)
    if not (rules.experts and sparse and flags.enable_expert_parallel):
        return
    if rules.expert_parallel_refusal is not None:
        raise EngineRefusal(Stage.MODEL, rules.expert_parallel_refusal, type="AssertionError")
    backend = flags.all2all_backend
    if backend not in {None, "allgather_reducescatter"}:
        words = "Fused MoE LoRA with EP currently only supports all2all_backend='allgather_reducescatter', "
        raise EngineRefusal(Stage.MODEL, f"{words}got '{backend}'.", type="AssertionError")
    if flags.fully_sharded_loras:
        words = (
            "Fused MoE LoRA does not support enable_expert_parallel=True together with "
            "fully_sharded_loras=True. Disable one of them."
        )
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")
