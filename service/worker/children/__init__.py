"""Programs that run in processes of their own, by the Python of whoever has torch or the engine.

They import the standard library, torch and vllm alone, and talk through files of one folder: ``job.json``
in, ``phase`` meanwhile, ``result.json`` out.
"""
