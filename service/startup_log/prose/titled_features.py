"""Finds the features of the engine with which something fails, as the title of a text names them in words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.startup_log.prose.sentences import title_of
from service.startup_log.prose.titled_settings import OTHER
from service.startup_log.text.lines import LogLine


@dataclass(frozen=True, slots=True)
class TitledFeature:
    """A feature that a title names, and the start that does without it."""

    words: str
    without: str


_FEATURES: Final = tuple(
    (re.compile(rf"(?i)(?<![\w-])(?:{pattern})(?![\w-])"), without)
    for pattern, without in (
        (r"(?:automatic )?prefix[- ]cach(?:e|ing)|APC", "--no-enable-prefix-caching"),
        (r"chunked[- ]prefill", "--no-enable-chunked-prefill"),
        (r"cuda[- ]?graphs?|graph capture|torch\.compile", "--enforce-eager"),
        (r"async(?:hronous)?[- ]scheduling", "--no-async-scheduling"),
        (r"custom[- ]all[- ]?reduce", "--disable-custom-all-reduce"),
        (
            r"MTP\d?|EAGLE-?[123]?|DFlash|spec(?:ulative)?[- ]decod(?:e|ing)|n-?gram",
            "no --speculative-config",
        ),
        (r"expert[- ]parallel(?:ism)?|EP", "no --enable-expert-parallel"),
        (r"EPLB", "no --enable-eplb"),
        (r"sleep[- ]mode", "no --enable-sleep-mode"),
        (r"KV(?:[- ]cache)?[- ]offload(?:ing)?", "no --kv-offloading-size and no --kv-transfer-config"),
        (r"LoRAs?", "no --enable-lora"),
        (r"pipeline[- ]parallel(?:ism)?|PP", "--pipeline-parallel-size 1"),
        (r"data[- ]parallel(?:ism)?|DP", "--data-parallel-size 1"),
        (r"(?:fp8|int8|quantized) kv[- ]cache", "no --kv-cache-dtype"),
        (r"DBO|dual[- ]batch[- ]overlap|micro-?batch overlap", "no --enable-dbo"),
        (r"AITER", "VLLM_ROCM_USE_AITER=0"),
        (r"DeepGEMM", "VLLM_USE_DEEP_GEMM=0"),
    )
)
"""Features by the words that people have for them, each with what a start is given that does without it."""
_BEFORE: Final = re.compile(r"(?i)\b(?:when|with|using|if|under|enabl(?:e|ing)|once|after|during|on)\b|\+")
"""What stands before the feature of the case in which it fails."""
_BEHIND: Final = re.compile(
    r"(?i)^[^.,;]{0,40}\b(?:crash\w{0,3}|fail\w{0,3}|hang\w{0,2}|breaks?|broken|caus\w{2,3}|trigger\w{0,3}|"
    r"dies|kills?|corrupt\w{0,2}|is enabled)\b"
)
"""What a title says of a feature that fails."""
_IS_OFF: Final = re.compile(r"(?i)\b(?:disabl\w{1,3}|turn\w{0,3} off|switch\w{0,3} off)\b|--no-")
"""What shows that a title is about a start that does without a feature already."""
MOST: Final = 2
"""Features that are named of one title."""


def titled_features(lines: Sequence[LogLine]) -> tuple[TitledFeature, ...]:
    """Return the features with which something fails, by the title, in its order."""
    said = title_of(lines)
    if said is None or OTHER.search(said.text) or _IS_OFF.search(said.text):
        return ()
    title = said.text
    found = sorted(
        (match.start(), match[0], without)
        for pattern, without in _FEATURES
        if (match := pattern.search(title)) is not None
        and (_BEFORE.search(title[: match.start()]) or _BEHIND.match(title[match.end() :]))
    )
    by_start = {without: words for _, words, without in reversed(found)}
    return tuple(TitledFeature(words, without) for without, words in reversed(by_start.items()))[:MOST]
