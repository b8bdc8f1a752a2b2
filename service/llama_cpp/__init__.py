"""How llama.cpp sizes the caches of a model: cells, rows and devices, by build."""
