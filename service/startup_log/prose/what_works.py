"""Finds the sentences in which a person says with what the same start or request works."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

from service.startup_log.prose.labelled_parts import FIX, labelled
from service.startup_log.prose.sentences import MOST_OF_QUOTE, Quote, sentences
from service.startup_log.text.lines import LogLine

MOST: Final = 2
"""Sentences that are shown of one text."""
_WORKS: Final = re.compile(
    r"(?i)\b(?:works?(?! ?flows?\b)(?<!your work)(?<!great work)(?<!good work)(?<!nice work)|worked|"
    r"(?:runs?|ran|starts?|boots?|loads?|serves?) (?:fine|normally|successfully|well)|"
    r"workaround(?= ?:)|(?:is|was) (?:ok|okay|fine)|can start|(?:goes?|go|went) away|is gone|"
    r"(?:is|was|are) working|is all (?:you|i|we) need(?:ed)?|"
    r"no longer (?:happens|occurs|crashes|fails)|"
    r"(?:is|was|get|gets|got) (?:resolved|solved|fixed) (?:by|with|when|after)|"
    r"(?:does|did)(?:n't| not) (?:happen|occur|appear|persist)|"
    r"(?:solve|solves|resolve|resolves|fix|fixes) (?:it|this|the (?:issue|problem|error|bug|crash|leak))|"
    r"(?:solved|resolved|fixed) (?:it|this|that)(?= (?:for (?:me|us)|on my)|[ ]?[.,;:!]|$)|"
    r"(?:solved|resolved|fixed) (?:the|this|my|our) (?:issue|problem|error|bug|crash|hang|leak)|"
    r"unless (?:you|we|i) (?:set|turn|pass|add|use|disable|enable|install)\w{0,3})\b"
)
"""What says that something works."""
_WORKS_IN_CJK: Final = re.compile(
    r"(?:\u6362\u6210|\u6539\u6210|\u6539\u4e3a|\u964d\u7ea7|\u56de\u9000|\u5347\u7ea7|\u964d\u5230|\u8bbe\u7f6e|"
    r"\u4f7f\u7528|\u52a0\u4e0a).{1,60}(?:\u4e0d\u4f1a\u62a5\u9519|\u4e0d\u518d\u62a5\u9519|\u6b63\u5e38|\u89e3\u51b3|"
    r"\u6210\u529f|\u53ef\u4ee5\u4e86|\u5c31\u597d)|"
    r"(?:\u3067|\u305f\u3089)(?:\u89e3\u6c7a|\u52d5\u3044\u305f|\u52d5\u4f5c\u3057\u305f|\u8d77\u52d5\u3057\u305f)|"
    r".{2,60}(?:\ud558\ub2c8|\ud558\uba74|\ud574\uc11c) (?:\ud574\uacb0|\uc815\uc0c1)"
)
"""The same in Chinese, Japanese and Korean, with what it works with."""
_FAILS_IN_CJK: Final = re.compile(
    r"\u4f46.{0,40}(?:\u4e0d\u8db3|\u62a5\u9519|\u5931\u8d25|\u65e0\u6cd5|\u4e0d\u4e86)|\u4e3a\u4ec0\u4e48"
)
"""The same sentence says in Chinese that it fails after all, or asks why."""
_GIVEN: Final = re.compile(
    r"(?i)\b(?:when|if|with|without|after|by|using|setting|downgrad\w{1,4}|revert\w{0,4}|remov\w{1,4}|disabl\w{1,4}|"
    r"instead|as long as|chang\w{1,4}|turning|export|same|single|only|while|but|on v?\d|default|pip install|"
    r"in (?:vllm )?v?0\.\d|regress\w{0,6}|configurations?)\b|`"
)
"""What names that with which it works, or the case in which it does."""
_NOT: Final = re.compile(
    r"(?i)\b(?:not|never|should|would|could|may|might|must|will(?! (?:re)?solve| fix)|expect\w{0,3}|intended|"
    r"supposed|hop(?:e|ing)|seems? to|looks? like|unable|none|nothing|neither|"
    r"cannot|can't|no (?:luck|amount)|"
    r"to see (?:if|whether)|whether|wonder\w{0,3}|all works|for a while|like to|try|until|once it|usually|"
    r"sometimes|how|feature|confused|(?:running|run|ran) into|"
    r"(?:happens?|occurs?|fails?|crash\w{0,2}|persists?) even|"
    r"works? but (?:it )?(?:fails|crash\w{0,4}|hangs))\b|n't\b|\?$|:$|"
    r"\b(?:with|without|by|on|in|for|to|of|and|or|the|using|when|if)$"
)
"""What says that it does not, or that it is a wish, a question, a supposition, or no whole sentence."""
MOST_WRAPPED: Final = 4
"""Lines over which a sentence goes on."""
LEAST_OF_END: Final = 24
"""Characters at its end by which the line is found on which it was wrapped."""
_BEGINS: Final = ("-", "*", "#", "|", "```", ">", "~~~", "1.", "2.", "3.", "4.", "5.", "6.", "7.", "8.", "9.")
_ENDS: Final = (".", "!", "\u3002", "`", ")")
_MARKS: Final = " *_`-"
_CLOSING: Final = re.compile(r"(?<=\w)\*(?=[\s.,;]|$)")
"""The end of marked words whose beginning is not in the sentence."""
_ITEM: Final = re.compile(r"[-*+#|>] |\d{1,3}[.)] |```|~~~")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?:])\s+")
_COMPLETE: Final = (".", "!", "?", ":", "|")
_FIX: Final = re.compile(
    r"(?i)[\s>*_#-]{0,12}(?:\d{1,2}[.)] {1,3})?(?:rule \d{1,2} )?(?:the |our |my )?"
    r"(?:fix|auto-?fix|solution|workaround|resolution|resolved|fixed|remedy|"
    r"\u89e3\u51b3(?:\u65b9\u6848|\u65b9\u6cd5|\u529e\u6cd5)?|\u4fee\u590d|\u89e3\u6c7a|\u5bfe\u51e6|"
    r"\u5bfe\u7b56|\u56de\u907f|\ud574\uacb0(?: \ubc29\ubc95|\ucc45)?)"
    r"(?: applied| implemented| used| that worked| was| is| by| with)?[*_`]{0,3} ?"
    r"(?:[:\uff1a\u2014\u2192=]|- |by |with |to )[*_ ]{0,4}\S"
)
"""The beginning of a sentence with which a person says what mended it."""
_OPEN: Final = re.compile(
    r"(?i)\b(?:please|none|unknown|todo|tbd|pending|n/a|not (?:yet|found|known|possible)|no fix|"
    r"close applications not in use)\b|\?$"
)
"""What says that nothing mended it, and what CANN prints as a solution."""
_NEEDS: Final = re.compile(
    r"(?i)(?:^|[\s(>*-])without (?:(?:it|this|that|them)\b|setting |passing |the )?[^.`]{0,20}"
    r"(?:`?-{2}[a-z]|`?[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{1,40}=|,)"
)
"""What says that something fails without a flag, a variable, or what the sentence names before."""
SETTING: Final = re.compile(
    r"(?<![\w-])--[a-z][a-z0-9_-]{2,60}(?![\w-])|(?<![\w-])[A-Z][A-Z0-9]{1,30}_[A-Z0-9_]{1,40}=\w{1,20}"
)
"""A flag or a variable with its value."""
_FAILS: Final = re.compile(
    r"(?i)\b(?:\w{0,60}error|fail\w{0,3}|crash\w{0,3}|ooms?|hangs?|exhaust\w{0,3}|stops?|dies|aborts?|refus\w{1,3})\b"
)
_NOT_NEEDED: Final = re.compile(r"(?i)\b(?:even|or|also|still|tried|works?|worked|fine|same) without\b|\?$")
"""What says that it fails with and without it, or works without."""
_FENCES: Final = ("```", "~~~")
MOST_OF_BLOCK: Final = 3
"""Lines of a block of code below a sentence that ends with a colon."""
_HAPPENS: Final = re.compile(r"(?i)\b(?:does|did)(?:n't| not) (?:happen|occur|appear|persist)\b")


def what_works(lines: Sequence[LogLine]) -> tuple[Quote, ...]:
    """Return the first sentences of a text that say with what it works, unchecked."""
    return tuple(islice(_said(lines), MOST)) or _labelled_fix(lines)


def _labelled_fix(lines: Sequence[LogLine]) -> tuple[Quote, ...]:
    """Return the part that is labelled as what mended it; none that says that nothing did."""
    part = labelled(lines, FIX)
    if part is None or _OPEN.search(part[1]) is not None:
        return ()
    return (Quote(part[0].number, part[1][:MOST_OF_QUOTE]),)


def _said(lines: Sequence[LogLine]) -> Iterator[Quote]:
    lines_shown: set[int] = set()
    for each in sentences(lines):
        text = each.text.replace("**", "").strip(" -*")
        if text.count("*") == 1:
            text = _CLOSING.sub("", text)
        if not each.title and _FIX.match(text) is not None and _OPEN.search(text) is None:
            whole = _whole(text, each.line, lines)[:MOST_OF_QUOTE]
            yield Quote(each.line.number, f"{whole}{_block_below(whole, each.line, lines)}")
            continue
        if _is_needed(text):
            yield Quote(each.line.number, text[:MOST_OF_QUOTE])
            continue
        if not (each.title or text.isascii()):
            # A clause is a sentence of its own there, and the line says with what.
            whole = each.line.text.strip(" -*")
            works = _WORKS_IN_CJK.search(whole[:MOST_OF_QUOTE]) and not _FAILS_IN_CJK.search(whole)
            if each.line.number not in lines_shown and works:
                lines_shown.add(each.line.number)
                yield Quote(each.line.number, whole[:MOST_OF_QUOTE])
            continue
        said = not each.title and _WORKS.search(text) is not None and _GIVEN.search(text) is not None
        if said and _NOT.search(_HAPPENS.sub(" ", text)) is None:
            begun = _begun_above(text, each.line, lines)
            yield Quote(each.line.number, f"{begun}{text}"[:MOST_OF_QUOTE])


def _begun_above(text: str, line: LogLine, lines: Sequence[LogLine]) -> str:
    """Return the words of the line above with which a sentence begins, as in a document of wrapped lines."""
    at = next((at for at, each in enumerate(lines) if each.number == line.number), 0)
    above = lines[at - 1] if at else line
    own = line.text.lstrip()
    begins = own.lstrip(_MARKS).startswith(text[:LEAST_OF_END].lstrip(_MARKS)) and _ITEM.match(own) is None
    if text[:1].isupper() or not begins or above.is_logged:
        return ""
    last = _SENTENCE_END.split(above.text.replace("**", ""))[-1].strip(" -*")
    return f"{last} " if last[:1].isupper() and not last.endswith(_COMPLETE) else ""


def _whole(text: str, begin: LogLine, lines: Sequence[LogLine]) -> str:
    """Return a sentence with the lines below on which it goes on, as in a document of wrapped lines."""
    first = next((at for at, line in enumerate(lines) if line.number == begin.number), len(lines))
    near = range(first, min(first + MOST_WRAPPED, len(lines)))
    at = next((at for at in near if lines[at].text.endswith(text[-LEAST_OF_END:])), len(lines))
    below = takewhile(_goes_on, lines[at + 1 : at + 1 + MOST_WRAPPED])
    return text if text.endswith(_ENDS) else " ".join([text, *(line.text.strip() for line in below)])


def _is_needed(text: str) -> bool:
    """Whether a sentence says that a start fails without a flag or a variable that it names."""
    if "ithout" not in text or SETTING.search(text) is None or _NOT_NEEDED.search(text) is not None:
        return False
    return _NEEDS.search(text) is not None and _FAILS.search(text) is not None


def _block_below(text: str, begin: LogLine, lines: Sequence[LogLine]) -> str:
    """Return the code below a sentence that ends with a colon, on one line; empty without any."""
    if not text.endswith(":"):
        return ""
    first = next((at for at, line in enumerate(lines) if line.number == begin.number), len(lines))
    near = range(first, min(first + 2 * MOST_WRAPPED, len(lines)))
    fence = next((at for at in near if lines[at].text.lstrip().startswith(_FENCES)), None)
    if fence is None:
        return ""
    code = takewhile(lambda line: not line.text.lstrip().startswith(_FENCES), lines[fence + 1 :])
    said = " ".join(line.text.strip() for line in islice(code, MOST_OF_BLOCK))
    return f" {said}"[:MOST_OF_QUOTE].rstrip()


def _goes_on(line: LogLine) -> bool:
    """Whether a line may go on with the sentence above it: no item, heading, fence or row, and no log."""
    return bool(line.text) and not line.is_logged and not line.text.lstrip().startswith(_BEGINS)
