"""Says whether a sentence tells of a failure that its writer met, or only of what somebody wants to know."""

import re
from typing import Final

_TROUBLE: Final = (
    r"(?:errors?|exceptions?|crash\w{0,4}|failures?|fail\w{0,3}|hang\w{0,3}|timeouts?|oom\w{0,3}|traceback|"
    r"segfault\w{0,2}|garbage|gibberish)"
)
_WORDS: Final = r"(?: [a-z0-9'.]{1,24}){0,8}"
_I: Final = r"(?:i|we|i've|we've|i'm|we're)(?: [a-z']{1,12}){0,2}"
_PART: Final = (
    r"(?<! your)(?<! your vllm)(?<! if)(?<! if the)(?<! when the)(?<! whenever the)(?<! in case the) "
    r"(?:it|this|that|which|vllm|engine|server|model|process|container|pod|requests?|workers?|start|startup|"
    r"command)(?: [a-z]{1,10}){0,2}"
)
_MET: Final = (
    re.compile(
        rf" {_I} (?:get|got|gets|getting|hit|hits|hitting|face|faced|facing|see|saw|seeing|encounter|"
        r"encountered|encountering|received?|met|experienced?|observed?|noticed?|have|had|having|ran into|"
        rf"run into|running into){_WORDS} {_TROUBLE} "
    ),
    re.compile(
        rf"{_PART} (?:crashed|failed|hung|died|segfaulted|ran out of memory|"
        rf"(?:gave|gives|raised|raises|threw|throws|returned|reports|reported){_WORDS} {_TROUBLE}) "
    ),
    re.compile(
        rf" there (?:seems? to be|is|was) (?:an?|some|this)(?: [a-z0-9'.]{{1,24}}){{0,4}} {_TROUBLE} "
    ),
    re.compile(
        r" (?:but|however)(?: (?:i|we|it|they|vllm|the [a-z]{1,12}))?(?: [a-z']{1,10}){0,2} "
        rf"(?:get|got|gets|reports?|raises?|throws?|always){_WORDS} {_TROUBLE} |"
        r" (?:but|however)(?: [a-z']{1,12}){0,4} (?:fails?|failed|crash\w{0,2}|hangs?|hung) "
    ),
    re.compile(
        rf" {_I} (?:tried|try|ran|run|running|started|start|launched|launch|deployed|deploy|loaded|load|used|"
        r"use|using|set|tested|test|served|serve) .{1,160}(?: but| however| and| then| it| vllm| always)"
        rf"{_WORDS} (?:{_TROUBLE}|(?:doesn't|does not|didn't) work|(?:can't|cannot) start) "
    ),
    re.compile(
        r" (?:outputs?|answers?|results?|responses?) (?:is|are|was|were)(?: [a-z]{1,12}){0,2} "
        r"(?:random|garbage|wrong|incorrect|gibberish|nonsense|garbled) "
    ),
    re.compile(
        "(?:\u6211|\u9047\u5230|\u51fa\u73b0|\u53d1\u73b0).{0,60}(?:\u62a5\u9519|\u5d29\u6e83|\u5361\u4f4f|\u5361\u6b7b|"
        "\u5931\u8d25|\u51fa\u9519|\u9519\u8bef|\u5f02\u5e38)|(?:\u62a5\u9519|\u5d29\u6e83|\u5361\u6b7b|\u5931\u8d25)\u4e86|"
        "(?:\u540e|\u65f6)(?:\u5c31|\u4f1a|\u76f4\u63a5)?(?:\u62a5\u9519|\u5d29\u6e83|\u5361\u6b7b|\u5931\u8d25)"
    ),
)
"""What shows that a sentence tells what happened to who writes it; in Chinese: I, met or found an error;
failed; fails after or at something."""
_ASKS: Final = (
    r"(?:i|we) wonder|(?:i'm|i am|was|am|is) (?:just )?(?:wondering|curious)|may i ask|"
    r"is there (?:a|any) way|i'd like to (?:ask|know|understand)|"
    r"(?:i|we) (?:just )?(?:want|wanted|need) to (?:ask|know|understand|learn)"
)
_ASKS_INDIRECTLY: Final = re.compile(rf" (?:{_ASKS}) ")
"""What shows that a sentence asks something, without the form of a question."""
_WISHES: Final = re.compile(
    r" (?:would be|would like|i wish|we wish|it should|ideally|i'd like|"
    rf"(?:i|we) (?:just )?(?:want|wanted|need) to [a-z]{{2,14}}|{_ASKS}) "
)
"""What shows that a sentence says what somebody wishes, asks or supposes."""


def meets(words: str) -> bool:
    """Whether the plain words of a sentence say that its writer met a failure."""
    return any(each.search(words) for each in _MET)


def wishes(words: str) -> bool:
    """Whether the plain words of a sentence say what somebody wishes, asks or supposes, and no failure."""
    return _WISHES.search(words) is not None and not meets(words)


def asks_indirectly(words: str) -> bool:
    """Whether the plain words of a sentence ask something, and tell of no failure that was met."""
    return _ASKS_INDIRECTLY.search(words) is not None and not meets(words)
