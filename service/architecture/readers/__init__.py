"""Readers of config.json, one module for each mechanism.

A class is read by the first module of this list whose mechanism it has:

1. ``encoder_decoder``: cross attention to an encoder
2. ``looped``: layers that run more than once
3. recurrent states: ``state_space``, ``gated_delta_net``, ``kimi_delta``, ``linear_attention``,
   ``short_convolutions``; Qwen4 Exp is in ``group_sparse``
4. attention over selected tokens, with heads: ``block_sparse``, ``group_sparse``, ``region_sparse``
5. MLA and what follows it: ``mla``, ``sparse_mla``, ``compressed_attention``
6. ``heterogeneous``: numbers or sizes of heads that differ by layer
7. ``interleaved_windows``: windows and full attention in turn, which no recipe describes
8. ``learned_positions``: learned positions or ALiBi
9. ``expert_variants``: routed experts that no recipe describes
10. ``moe`` and ``dense``: all others, as recipes (``recipe``, ``windows``)

``wrappers`` has the classes that put encoders before a text model of its own class, and ``mtp`` reads the
prediction layers.
"""
