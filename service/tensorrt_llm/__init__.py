"""How TensorRT-LLM sizes the pools of a model: blocks of its first cache manager, pages of its second."""
