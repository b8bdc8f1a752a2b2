"""Programs that run as child processes, with the Python of an environment that has torch or the engine.

They import only the standard library, torch and vllm. They communicate through files in one folder: they read
``job.json``, write ``phase`` while they run, and write ``result.json`` at the end.
"""
