"""dryserve: a dry run of ``vllm serve``, from a model's config to the engine's own numbers."""

__version__ = "0.2.0"
