"""Whether a class of the engine can share its output with the embedding, or have one of its own."""

from service.architecture.model import ModelArchitecture
from service.engines.engine_rules import EngineRules
from service.engines.refusal import EngineRefusal, Stage


def check_tied_output(
    architecture: ModelArchitecture, pipeline_parallel_size: int, rules: EngineRules
) -> None:
    """Refuse an output of its own where the class has none, and a shared one where it cannot be shared.

    Raises:
        EngineRefusal: stage ``model``.
    """
    name, classes = architecture.class_name, rules.tied_outputs
    if architecture.declared.untied and name in classes.tied_classes:
        raise EngineRefusal(
            Stage.MODEL,
            "",
            type="AssertionError",
            detail=f"vLLM {rules.release} asserts tie_word_embeddings in {name}.",
        )
    if not architecture.tie_word_embeddings:
        return
    if name in classes.untied_classes:
        raise EngineRefusal(
            Stage.MODEL,
            "",
            type="AssertionError",
            detail=f"vLLM {rules.release} asserts that tie_word_embeddings is false in {name}.",
        )
    quantization = architecture.quantization
    by_modelopt = quantization is not None and quantization.method.startswith("modelopt")
    if by_modelopt and name in classes.modelopt_untied_classes:
        raise EngineRefusal(
            Stage.MODEL,
            "",
            type="NotImplementedError",
            detail=f"vLLM {rules.release} cannot tie the output to the embedding of a ModelOpt checkpoint.",
        )
    if pipeline_parallel_size > 1 and name in classes.pipeline_untied:
        error, _, words = classes.pipeline_untied[name].partition(": ")
        raise EngineRefusal(Stage.MODEL, words, type=error)
