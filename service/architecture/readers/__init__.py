"""Readers of config.json, one module for each mechanism.

A class is read by the first module of this list whose mechanism it has:

1. ``media/encoder_decoder``: cross attention to an encoder
2. ``attention/looped``: layers that run more than once
3. ``recurrent/``: recurrent states; Qwen4 Exp is in ``sparse/group_sparse``
4. ``sparse/``: attention over selected or compressed tokens
5. ``attention/mla``: MLA over all tokens
6. ``attention/heterogeneous``: numbers or sizes of heads that differ by layer
7. ``attention/interleaved_windows``: windows and full attention in turn, which no recipe describes
8. ``attention/learned_positions``: learned positions or ALiBi
9. ``attention/expert_variants``: routed experts that no recipe describes
10. ``attention/moe`` and ``attention/dense``: all others, as recipes (``recipes/``)

``pooling/`` has classes of their own that return vectors or scores, ``media/wrappers`` the classes that put
encoders before a text model of its own class, and ``mtp`` reads the prediction layers. ``fields/`` completes
a config as the engine's config class does.
"""
