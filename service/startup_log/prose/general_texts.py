"""Says whether a text tells of failures in general, of code under review, or of engines side by side.

Such texts quote what programs print and name causes, and none of it happened to who pastes them.
"""

import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.tracebacks import frame_of
from service.startup_log.prose.complaints import FAILING, MOST_OF_CHANGE, is_about_failure
from service.startup_log.prose.sentences import LONGEST, Sentence, plain_words, sentences, title_of
from service.startup_log.prose.symptoms import BUG, met_failure
from service.startup_log.text.lines import LogLine

MOST_SENTENCES: Final = 12
"""Sentences at the beginning of an article in which it says what it is."""
LEAST_LINES: Final = 2
"""Lines of a guide: its title, and what it says."""
LEAST_FINDINGS: Final = 2
"""Items of a list of findings."""
LEAST_ENGINES: Final = 2
"""Engines that a comparison names."""
_SEVERAL: Final = r"(?:failures|errors|issues|problems|crashes|ooms?|mistakes|pitfalls)"
_OF_ENGINE: Final = (
    r"(?:(?:the|vllm|vllm's|engine|startup|start|start up|cuda|gpu|oom|nccl|memory|production|serving|server|"
    r"deployment|install|installation|loading|llm|inference|python|docker|such|these|most|common|of) )"
)
"""Words between `most` and the failures that a text speaks of in general."""
_WRITING: Final = (
    "document|page|section|reference|runbook|playbook|notes?|chapter|series|"
    "cheat ?sheet|write-?up|guide|article|post|tutorial|checklist|walkthrough"
)
"""What a text calls itself that is no report."""
_TELLS: Final = (
    "analy[sz]es|answers|assumes|collects|contains|covers|describes|details|discusses|dives|documents|examines|"
    "explains|explores|focuses|gives|goes|helps|introduces|lists|outlines|packages|presents|provides|shows|"
    "summari[sz]es|walks|will"
)
"""What such a text does, as it says of itself."""
_ONE: Final = (
    r"(?:a|an|the|our|my|this|how) (?:[a-z0-9]{1,14} ){0,3}"
    r"(?:bug|crash|issue|failure|problem|regression|error|hang)\b"
)
"""The one failure that a report is about, which can call itself a document."""
_TITLED: Final = re.compile(
    rf" (?:common|typical|frequent|all known|all possible|every|every common) {_OF_ENGINE}{{0,4}}{_SEVERAL} |"
    r" every fix |"
    rf"^ (?:the )?(?:top )?(?:two|three|four|five|six|seven|eight|ten|[0-9]{{1,2}}) (?:best |most |typical |"
    rf"common |root |main ){{0,2}}{_OF_ENGINE}{{0,3}}(?:causes|reasons|scenarios|fixes|ways|{_SEVERAL}) |"
    r" causes and (?:[a-z]{1,12} )?(?:fixes|solutions) |"
    r"^ (?:how to )?(?:troubleshoot|troubleshooting|fix|fixing|taming|debugging|solving|understanding|"
    r"avoiding|preventing) (?:[a-z0-9']{1,16} ){0,8}"
    r"(?:guide|checklist|explained|tutorial|handbook|cheatsheet) |"
    r" (?:complete|ultimate|definitive|practical|troubleshooting) (?:[a-z0-9]{1,16} ){0,2}"
    r"(?:guide|checklist|handbook) |"
    r" (?:error|errors|oom|crash) you (?:are|re|'re) (?:seeing|getting) |"
    r" (?:runbook|playbook|cheat ?sheet|gotchas|field notes|lessons learned) |"
    r"\u5e38\u89c1(?:\u7684)?(?:\u95ee\u9898|\u9519\u8bef|\u62a5\u9519|\u6545\u969c)|"
    r"(?:\u95ee\u9898|\u9519\u8bef|\u62a5\u9519)(?:\u6c47\u603b|\u5927\u5168|\u5408\u96c6)|"
    r"^ (?:frequently asked questions|faqs?|troubleshooting) $|"
    r"[\u4e8c\u4e24\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341\d]\u79cd[^ ]{0,6}"
    r"(?:\u6b7b\u56e0|\u539f\u56e0|\u9519\u8bef|\u62a5\u9519|\u6545\u969c)|"
    r"\u3088\u304f\u3042\u308b(?:\u30a8\u30e9\u30fc|\u554f\u984c|\u8cea\u554f)"
)
"""A title of an article about failures: `Every Fix for the ... Errors`, `The four root causes of ...`; in
Chinese and Japanese: common problems, a collection of errors."""
_GENERAL: Final = re.compile(
    rf" (?:(?:almost|nearly) (?:every|all)|most|the vast majority of|the most common) {_OF_ENGINE}{{0,4}}"
    rf"{_SEVERAL} (?:[a-z0-9']{{1,16}} ){{0,3}}"
    r"(?:are|is|have|has|come|comes|fall|falls|relate|stem|stems|can be|boil|include) |"
    r" (?:is|are|remains) one of the (?:most|more) (?:[a-z]{1,14} ){1,3}(?:[a-z0-9'-]{1,16} ){0,4}"
    r"(?:errors?|issues?|problems?|failures?|obstacles|traces|crashes|complaints) |"
    rf" (?:this|our) (?:[a-z]{{1,14}} )?(?:{_WRITING}) (?:[a-z]{{1,14}} )?(?:{_TELLS}) (?!{_ONE})|"
    r" this (?:repository|repo) (?:packages|collects|documents) |"
    r" in this (?:[a-z]{1,14} )?(?:guide|article|post|blog|tutorial|chapter) |"
    rf" this is (?:a|the|my|our) (?:[a-z]{{1,14}} )?(?:{_WRITING}|summary|collection|list) (?:for|of|to|on) |"
    rf" (?:when to use|you are in|how to use) this (?:{_WRITING}) |"
    rf"^ one of the most (?:[a-z]{{1,14}} ){{1,3}}{_SEVERAL} |"
    r" here(?:'s| is) how (?:to|you|we) |^ what to check |"
    r" without the fixes (?:[a-z]{1,14} ){1,4}you(?:'ll| will) |"
    r"(?:^| )let(?:'s| us) (?:dig|dive|explore|break it|unpack|walk) |^ hey (?:guys|everyone|folks) today |"
    r"^ the following (?:troubleshooting )?(?:information|section|table|list) [a-z0-9 .]{0,80}common "
    r"(?:issues|problems|errors) |"
    r"^ you (?:launch|start|started|load|run|boot|deploy|spin up) (?:[a-z0-9']{1,16} ){0,6}and "
    r"(?:[a-z0-9']{1,16} ){0,3}(?:crash|crashes|fails?|dies|hangs|runs out|got|get|see) "
)
"""What says of failures as a kind, or to a reader what may happen to him: `Most startup failures are ...`."""
_MENDS: Final = re.compile(
    r" (?:every|all|common|frequent|top|complete|ultimate) (?:[a-z0-9-]{1,20} ){0,3}"
    r"(?:fix|fixes|causes|errors|mistakes) |"
    r" how to (?:[a-z]{1,12} (?:and |or )?)?(?:fix|debug|troubleshoot|solve|diagnose|avoid|resolve) |"
    r" (?:guide|troubleshooting|playbook|runbook|cheat ?sheet|pitfalls|explained) "
)
_OF_SEVERAL: Final = re.compile(r" (?:errors|failures|problems|issues|crashes|pitfalls|mistakes|hangs) ")
"""What the title of a guide says together: that it tells how to mend failures, and that these are several."""
_GUIDE: Final = re.compile(
    r" (?:guide|tutorial|cookbook|how to|recipes?|walkthrough|faq|checklist|best practices|quick ?start) $"
)
"""The title of a guide: `Qwen3 Usage Guide`."""
_IF_SEEN: Final = re.compile(
    r" if you (?:are |'re |re )?(?:see|seeing|get|getting|hit|hitting|face|facing|encounter|encountering|"
    r"run into|running into|observe) "
)
"""What a guide says to a reader of an error that he may see."""
_OWN: Final = re.compile(
    r" (?:i|we|i've|we've|i'm|we're) (?:[a-z]{1,12} ){0,2}(?:get|got|getting|hit|face|facing|see|saw|"
    r"encounter|encounters|encountered|ran into|run into|am|are having|have (?:the|an|this|a problem)) |"
    r" (?:my|our) (?:vllm|server|engine|start|log)"
)
"""What a person says of a failure of their own."""
_BADGE: Final = re.compile(
    r"(?i)\((?:low|medium|high|critical) severity\)|\*\*(?:low|medium|high|critical) severity\*\*|"
    r"!\[(?:p[0-4] badge|(?:security-)?(?:low|medium|high|critical))\]|"
    r"^useful\? react with |^_?\u26a0\ufe0f potential issue_? ?\||^\*{0,2}(?:nit|nitpick|suggestion)\b[*: (]"
)
"""Marks of who reviews code: Cursor's Bugbot, Gemini Code Assist, Codex, CodeRabbit, people's `nit:`."""
_DIFF: Final = re.compile(r"^(?:`{3,4}diff|diff --git |@@ -\d{1,7}(?:,\d{1,7})? \+\d|(?:---|\+\+\+) [ab]/)")
"""The beginning of a change that is shown, as git writes it."""
_PLACE: Final = re.compile(
    r"^[\w./-]{1,200}\.(?:py|cu|cuh|cpp|h|rs|go|md|toml|ya?ml|sh)(?::\d{1,7}(?:-\d{1,7})?)?$", re.ASCII
)
"""The file, alone on its line, of which a remark is."""
_FINDINGS: Final = re.compile(
    r"(?i)^(?:#{1,4} .{0,4}|\*\*|(?:\w{1,12} ){0,3})(?:findings|gaps|observations|"
    r"recommendations)(?:\*\*)?:?$"
)
"""What heads a list of what is wrong with code."""
_FINDING: Final = re.compile(r"^(?:[-*+] |\*{0,2}\d{1,2}[.)]|#{2,4} \d{1,2}[.)])")
PERMALINK: Final = re.compile("^(?:\\w.{1,100}\u00b6|[A-Z][\\w .,'()/&-]{1,100}#)$")
"""A heading with the sign that Sphinx and MkDocs put behind it."""
_COMPARES: Final = re.compile(
    r" (?:vs|versus|comparison|compared (?:with|to|against)|compare|comparing|benchmarks?|"
    r"benchmarking|difference between) "
)
_ENGINES: Final = (
    re.compile(r" vllm"),
    re.compile(r" sglang"),
    re.compile(r" lmdeploy"),
    re.compile(r" (?:tensorrt|trt|trtllm)"),
    re.compile(r" (?:tgi|text generation inference) "),
    re.compile(r" (?:llama\.cpp|llamacpp|ollama|exllama\w{0,3}) "),
    re.compile(r" (?:transformers|hf|huggingface) "),
    re.compile(r" (?:deepspeed|mii|aphrodite|mlc) "),
)
"""Names of engines that are compared with each other."""


def is_guide(lines: Sequence[LogLine]) -> bool:
    """Whether a text explains failures in general: its title or its beginning says so, and nobody met one.

    What it quotes of programs is an example then. A log beside it is somebody's own, and so are calls, but
    where a guide quotes them for a reader who may see them.
    """
    if any(line.is_logged for line in lines):
        return False
    if any(frame_of(line) is not None for line in lines) and not _instructs(lines):
        return False
    begin = tuple(islice(sentences(lines[:MOST_OF_CHANGE]), MOST_SENTENCES))
    if _instructs(lines):
        return True
    if not begin or begin[0].tags or met_failure(begin):
        return False
    # A heading of few words is no sentence.
    heading = plain_words(next(line.text for line in lines if line.text)[:LONGEST])
    titles = (heading, begin[0].words)
    if any(map(_TITLED.search, titles)) or any(_GENERAL.search(each.words) for each in begin):
        return True
    return _is_titled_as_guide(lines)


def _instructs(lines: Sequence[LogLine]) -> bool:
    """Whether a title is that of a guide, and the text says what to do about errors that a reader may see."""
    title = title_of(lines)
    if title is None or not _GUIDE.search(title.words):
        return False
    said = [plain_words(line.text[:LONGEST]) for line in lines[:MOST_OF_CHANGE] if " you " in line.text]
    own = any(_OWN.search(plain_words(line.text[:LONGEST])) for line in lines[:MOST_OF_CHANGE])
    return not own and any(map(_IF_SEEN.search, said))


def _is_titled_as_guide(lines: Sequence[LogLine]) -> bool:
    """Whether the first line says how several failures are mended, and none below is of the writer's own."""
    filled = [line.text for line in lines[:MOST_OF_CHANGE] if line.text]
    title = plain_words(filled[0][:LONGEST])
    if len(filled) < LEAST_LINES or not (_MENDS.search(title) and _OF_SEVERAL.search(title)):
        return False
    return not any(raises(text) or _OWN.search(plain_words(text[:LONGEST])) for text in filled)


def reviews_code(lines: Sequence[LogLine]) -> bool:
    """Whether a text says what is wrong with code, and no program reports a failure in it.

    By the mark of a reviewer, a change that is shown before anything is said of it or below the name of its
    file, or a list of findings.
    """
    filled = [line for line in lines[:MOST_OF_CHANGE] if line.text]
    shown = [line for line in filled[:2] if _DIFF.match(line.text)]
    marked = any(_BADGE.search(line.text) for line in filled)
    marked = marked or bool(shown and (filled[0] in shown or _PLACE.match(filled[0].text)))
    marked = marked or _remarks_on_change(filled)
    if not (marked or (_lists_findings(filled) and not any(raises(line.text) for line in filled))):
        return False
    return not any(line.level in FAILING or frame_of(line) is not None for line in lines)


def _remarks_on_change(filled: Sequence[LogLine]) -> bool:
    """Whether a change stands below the name of its file, and the text does not begin with a failure."""
    begin = _beginning(filled)
    if not begin or BUG in begin[0].tags or met_failure(begin):
        return False
    return any(_PLACE.match(above.text) and _DIFF.match(below.text) for above, below in pairwise(filled))


def _lists_findings(filled: Sequence[LogLine]) -> bool:
    """Whether a text lists findings, and neither its title nor one of them says that something failed."""
    begin = _beginning(filled)
    if not begin or BUG in begin[0].tags or is_about_failure(filled[0]) or met_failure(begin):
        return False
    headed = next((at for at, line in enumerate(filled) if _FINDINGS.match(line.text)), None)
    if headed is None:
        return False
    items = [line for line in filled[headed + 1 :] if _FINDING.match(line.text) is not None]
    return len(items) >= LEAST_FINDINGS and not any(map(is_about_failure, items))


def compares_engines(title: Sentence) -> bool:
    """Whether a title sets engines side by side: `SGLang compared with LMDeploy`."""
    if _COMPARES.search(title.words) is None:
        return False
    return sum(each.search(title.words) is not None for each in _ENGINES) >= LEAST_ENGINES


def is_page(lines: Sequence[LogLine]) -> bool:
    """Whether a text begins with a heading of a page of documentation."""
    return next((PERMALINK.match(line.text) is not None for line in lines if line.text), False)


def _beginning(lines: Sequence[LogLine]) -> tuple[Sentence, ...]:
    found = sentences(lines[:MOST_OF_CHANGE])
    return tuple(islice(found, MOST_SENTENCES)) if found and found[0].title else ()
