"""Reads what stands around a log: the output of collect_env and nvidia-smi, image tags, a person's words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from service.startup_log.environment.drivers import Driver, read_driver
from service.startup_log.environment.given_settings import given_settings
from service.startup_log.environment.host_facts import host_facts, tried_actions
from service.startup_log.environment.ray_resources import RayGpus, read_ray_gpus
from service.startup_log.prose.kinds_of_texts import AboutText, kind_of_text
from service.startup_log.prose.said_reasons import said_reason
from service.startup_log.prose.said_releases import SaidReleases, said_releases
from service.startup_log.prose.sentences import Quote
from service.startup_log.prose.titled_features import TitledFeature, titled_features
from service.startup_log.prose.titled_settings import claim_of_title, needed_settings, titled_settings
from service.startup_log.prose.what_works import what_works
from service.startup_log.text.lines import LogLine
from service.startup_log.text.platforms import platform_of

_RELEASES: Final = (
    # collect_env; an image's tag; pip and uv; a person.
    (
        "vllm version",
        re.compile(
            r"(?i)(?<![A-Za-z0-9_])vLLM version\s{0,40}:\s{0,4}v?"
            r"(\d{1,3}\.\d{1,3}\.(?:\d|dev\d)[A-Za-z0-9_.+]{0,60})"
        ),
    ),
    ("vllm-openai:", re.compile(r"vllm-openai:v?(\d{1,3}\.\d{1,3}\.\d[A-Za-z0-9_.]{0,40})")),
    ("vllm", re.compile(r"(?<![A-Za-z0-9_])vllm(?:==| {2,40})(\d{1,3}\.\d{1,3}\.\d[A-Za-z0-9_.+]{0,60})")),
    (
        "vllm",
        re.compile(
            r"(?i)(?<![-A-Za-z0-9_])vllm[`*:]{0,3}(?:\s(?:version|release|server|was|is)){0,3}\s?[:=]?\s?[`*]{0,2}v?"
            r"(\d{1,3}\.\d{1,3}\.\d[A-Za-z0-9_.+]{0,60})"
        ),
    ),
    # "vLLM (version: 0.6.2)", "vllm docker v0.11.2"; "version 0.6.2 of vLLM"; a folder, vllm-0.10.0/ or
    # vllm0.10/.
    (
        "vllm",
        re.compile(
            r"(?i)(?<![-A-Za-z0-9_])vllm[\s`*(,:]{1,4}(?:(?:the|latest|stable|published|official|nightly|docker|image|container|"
            r"build|installed|package|version|release|v|is|was|in|at|on|with|tag)[\s`*(:=]{1,4}){0,5}"
            r"v?([01]\.\d{1,3}\.\d[A-Za-z0-9_.+]{0,60})"
        ),
    ),
    (
        "vllm",
        re.compile(
            r"(?i)(?<![-A-Za-z0-9_])vllm[\s`*(,:]{1,4}(?:version[\s:=]{1,3}v?|v)([01]\.\d{1,2})\b(?!\.\d|\.dev)"
        ),
    ),
    (
        "vllm",
        re.compile(
            r"(?i)\b(?:version |release |v)([01]\.\d{1,3}\.\d[A-Za-z0-9_+]{0,40}) (?:of|from) \W?vllm\b"
        ),
    ),
    # A row of a table in Markdown.
    (
        "vllm",
        re.compile(
            r"(?i)\|\s{0,4}[*`]{0,2}vllm(?: version)?[*`]{0,2}\s{0,20}\|\s{0,4}[*`]{0,2}v?"
            r"([01]\.\d{1,3}\.\d[A-Za-z0-9_.+]{0,60})"
        ),
    ),
    # In Chinese, with the word for version between or behind.
    (
        "vllm",
        re.compile(
            r"(?i)vllm[\s`*]{0,3}的?版本[号是为:\uff1a=\sv]{0,6}(\d{1,3}\.\d{1,3}\.\d[A-Za-z0-9_.+]{0,60})"
        ),
    ),
    # "Images 0.28.0 and 0.27.1"
    ("image", re.compile(r"(?i)\bimages?:?\s{1,3}`?v?(0\.\d{1,3}\.\d[A-Za-z0-9_.]{0,40})")),
    ("vllm", re.compile(r"(?i)(?:^|[^a-z])vllm[-_]?v?([01]\.\d{1,3}(?:\.\d[A-Za-z0-9_+]{0,40})?)(?=[/\\])")),
)
"""Patterns of a release, the surest first, each with lower-case words that its lines contain."""
_GPU_LINES: Final = (
    re.compile(r"\bGPU \d{1,2}: ((?:NVIDIA |Tesla |GeForce |AMD )[^(,;|]{2,60})"),
    re.compile(r"^\|\s{1,4}\d{1,2}\s{1,3}((?:NVIDIA |Tesla |GeForce |Quadro |GRID )[\w .+-]{1,40}?)\s{2,}"),
    re.compile(r"different devices in the system: ([^,]{3,60})"),
    re.compile(r"Your device '([^']{3,60})'"),
    re.compile(r"\bon (NVIDIA [\w .-]{3,40}) \(compute capability"),
)
_LISTED: Final = re.compile(r"(?:GPU models and configuration: )?GPU (\d{1,2}): (?:NVIDIA |Tesla |AMD )")
"""torch, utils/collect_env.py, and nvidia-smi -L: one line for each GPU of the host."""
MOST_LISTED: Final = 256
_GPU_WORDS: Final = ("GPU ", "|", "different devices", "Your device", "on NVIDIA")
_TOTAL: Final = re.compile(r"MiB\s{0,4}/\s{0,4}(\d{3,7})MiB")
_MENTIONED: Final = re.compile(
    r"(?:\b|(?<=\d[xX]))(?:(?:RTX|GTX)[ -]?(?:PRO )?A?\d{3,4}(?: ?(?:Ti|SUPER|Ada|Blackwell|D))?|Tesla "
    r"[A-Z]\d{1,3}|"
    r"(?:A(?:10G|100|800|[456]000)|H(?:20|100|200|800)|L40S?|B(?:100|200|300)|V100S?|MI\d{2,3}[AX]?)"
    r"(?:-[A-Z0-9-]{2,20})?(?= GPU|s?\b)|"
    r"(?<![\w/.]-)(?<![/.])(?:A(?:2|10|16|30|40)|L(?:4|20)|T4)(?= GPU|s?\b)|"
    r"H\d{3} NVL|(?<![\w/.]-)(?<![/.])[PM][14]0{1,2}(?= GPU|s?\b)|"
    r"GB10|GB[23]00|GH200)(?=s?(?!\w|\.\w))"
)
"""A card as people write it, in the plural too."""
_BARE: Final = re.compile(
    r"(?:^|\b(?:on|with|an?|my|our|single|dual|two|four|[1248] ?x|nvidia|geforce) |"
    "(?<=[\u5361\u5f20\u5757\u4e2a\u7528\u5728\u662f]))"
    r"([345]0[6-9]0(?: ?(?:Ti|ti|SUPER|super|D))?)s?(?=$|[ ,;.)/]|[\u4e00-\u9fff])"
    r"(?! (?:tokens|requests|ms|MiB|MB|port)\b)",
    re.IGNORECASE,
)
"""A card of which a person writes only the number."""
_SIZE: Final = re.compile(
    r"s?(?P<edition> Pro\b)?(?:[ -]?(?:GPUs? |cards? )?[ (\[]{0,2}(?:(?:with|of|has) )?"
    r"(?P<size>\d{2,3}) ?Gi?B?\b(?! (?:of )?(?:(?:system|host|CPU|DDR\d?) )?(?:RAM|disk|swap)\b))?",
    re.IGNORECASE,
)
"""The memory behind the name of a card, and the edition that some write last: `RTX 6000 Pro (96GB each)`."""
_SERIES: Final = re.compile(r"(?i)\b([2-5]0)(?:[ -]series\b|xx\b(?! ?(?:%|error|status|http)))")
"""A family of cards, `20-series`; the members differ in memory and not in what they can compute."""
_CAPABILITIES: Final[Mapping[str, str]] = {"20": "7.5", "30": "8.6", "40": "8.9", "50": "12.0"}
_CAPABLE: Final = re.compile(
    r"(?i)\b(?:has|of|with) (?:cuda |compute )?capability (?:sm_?)?(\d{1,2})\.?(\d)\b|"
    r"\b(?:current|device) capability:? (\d{1,2})\.?(\d)\b"
)
"""What the engine, torch and Triton say of the device; what they require stands behind other words."""
_OF_GB10: Final = re.compile(r"(?i)\bDGX[ -]Spark\b|\bsm_?121a?\b")
MOST_NAMES: Final = 64
"""GPU names that are kept."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a text says beside the engine's own log."""

    release: str | None
    gpus: tuple[str, ...]
    """Names of GPUs as a tool prints them, in the order of the text, without repetition."""
    total_mib: int | None
    """Total memory of the first GPU as nvidia-smi prints it."""
    mentioned: tuple[str, ...]
    """GPUs that a person names, such as ``RTX 3090``."""
    platform: str | None
    """`cuda`, `rocm`, `cpu`, `xpu`, `tpu`; ``None`` if the text does not say."""
    capability: str | None = None
    """Compute capability of the GPU, as the text says it or by the family that it names."""
    ray: RayGpus | None = None
    """GPUs that Ray counts and that the start waits for."""
    given: tuple[str, ...] = ()
    """Variables that the text sets, as ``NAME=value``, and flags that did not help, as they are written."""
    driver: Driver | None = None
    """Of the GPU, with the CUDA of the installed torch; ``None`` where the text does not print both."""
    works: tuple[Quote, ...] = ()
    """Sentences that say with what it works."""
    reason: Quote | None = None
    """The sentence that says why it failed."""
    releases: SaidReleases | None = None
    """A release with which it works, and one with which it does not."""
    claim: Quote | None = None
    """The title, where it claims something."""
    about: AboutText | None = None
    """What the text is by its form if no failure is found: a question, a wish, a change."""
    features: tuple[TitledFeature, ...] = ()
    """Features with which it fails, in the words of the title."""
    titled: tuple[str, ...] = ()
    """Flags and variables with which it fails, by the title and what is below it."""
    needed: tuple[str, ...] = ()
    """Flags and variables without which it fails, by the same."""
    host: frozenset[str] = frozenset()
    """What the text tells of the host, by the names of host_facts.toml."""
    tried: frozenset[str] = frozenset()
    """Names of actions that a person tried in vain."""
    gpu_count: int | None = None
    """GPUs of the host, where a tool lists them all."""


NOTHING: Final = Surroundings(None, (), None, (), None)
"""Of a text that holds nothing but the log."""


def read_surroundings(lines: Sequence[LogLine]) -> Surroundings:
    """Return what a text says about its release, its GPUs and its platform beside the engine's log."""
    totals = (match for line in lines if "MiB" in line.text and (match := _TOTAL.search(line.text)))
    total = next(totals, None)
    works = what_works(lines)
    return Surroundings(
        release=_release(lines),
        gpus=_unique(_gpus(lines)),
        total_mib=None if total is None else int(total[1]),
        mentioned=_unique(_mentions(lines)),
        platform=platform_of(lines),
        capability=next(_capabilities(lines), None),
        ray=read_ray_gpus(lines),
        given=tuple(each for each in given_settings(lines) if not any(each in said.words for said in works)),
        driver=read_driver(lines),
        works=works,
        reason=said_reason(lines),
        releases=said_releases(lines),
        claim=claim_of_title(lines),
        about=kind_of_text(lines),
        features=titled_features(lines),
        titled=titled_settings(lines),
        needed=tuple(
            each for each in needed_settings(lines) if not any(each in said.words for said in works)
        ),
        host=host_facts(lines),
        tried=tried_actions(lines),
        gpu_count=_gpu_count(lines),
    )


NEAR: Final = 80
"""Characters around a release that say whether it works."""
_WORKS: Final = re.compile(
    r"(?i)(?<!not )(?<!n't )(?<!never )\b(?:works?|worked|fine|downgrad\w{0,4}|upgrad\w{0,4} from)(?: "
    r"[^.,;]{0,60})?$"
)
_LEFT: Final = re.compile(r"(?i)[^.]{0,20}\bbut (?:after|since) (?:upgrad|updat)")


def _release(lines: Sequence[LogLine]) -> str | None:
    candidates = [
        line.text
        for line in lines
        if line.origin is None and any(words in line.text.lower() for words in ("vllm", "image"))
    ]
    for words, pattern in _RELEASES:
        found = (
            (text, match)
            for text in candidates
            if words in text.lower()
            for match in islice(pattern.finditer(text), MOST_NAMES)
        )
        for text, match in islice(found, MOST_NAMES):
            if not _works(text, match):
                return match[1].rstrip(".")
    return None


def _works(text: str, release: re.Match[str]) -> bool:
    """Whether a person says that something works with a release, which is not the one that failed."""
    before, after = text[max(0, release.start() - NEAR) : release.start()], text[release.end() :][:NEAR]
    return _WORKS.search(before) is not None or _LEFT.match(after) is not None


def _gpus(lines: Sequence[LogLine]) -> Iterator[str]:
    for line in lines:
        if any(map(line.text.__contains__, _GPU_WORDS)):
            for pattern in _GPU_LINES:
                yield from (match[1].strip() for match in pattern.finditer(line.text))


def _gpu_count(lines: Sequence[LogLine]) -> int | None:
    """Return how many GPUs collect_env and nvidia-smi -L list; ``None`` where they list none."""
    listed = (match for line in lines if "GPU " in line.text and (match := _LISTED.match(line.text)))
    return len({match[1] for match in islice(listed, MOST_LISTED)}) or None


def _mentions(lines: Sequence[LogLine]) -> Iterator[str]:
    for line in lines:
        if line.origin is None and not line.text.startswith("File "):
            for match in _MENTIONED.finditer(line.text):
                # Of a card whose name ends in S the plural looks like another card.
                plural = line.text[match.end() : match.end() + 1] == "s"
                named = (match[0], f"{match[0]}S") if plural else (match[0],)
                yield from (f"{each}{_size(line.text, match.end())}" for each in named)
            yield from (
                f"RTX {match[1]}{_size(line.text, match.end(1))}" for match in _BARE.finditer(line.text)
            )
            if _OF_GB10.search(line.text):
                yield "GB10"


def _size(text: str, end: int) -> str:
    """Return the edition and the memory of a card as a person writes them behind its name."""
    found = _SIZE.match(text, end)
    edition = " PRO" if found is not None and found["edition"] else ""
    return "" if found is None else f"{edition} {found['size']}GB" if found["size"] else edition


def _capabilities(lines: Sequence[LogLine]) -> Iterator[str]:
    """Yield the compute capabilities that a text names: in messages, then by families of cards."""
    for line in lines:
        if "apability" in line.text and (match := _CAPABLE.search(line.text)) is not None:
            yield f"{match[1] or match[3]}.{match[2] or match[4]}"
    for line in lines:
        if "0" in line.text and line.origin is None and (match := _SERIES.search(line.text)) is not None:
            yield _CAPABILITIES[match[1]]


def _unique(names: Iterator[str]) -> tuple[str, ...]:
    kept: dict[str, None] = {}
    for name in names:
        kept.setdefault(name)
        if len(kept) == MOST_NAMES:
            break
    return tuple(kept)
