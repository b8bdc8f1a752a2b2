"""Condenses a log of any length: its two ends, and every failure between them.

A log is read in pieces and never held as a whole, so that the memory that it takes is bounded.
"""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, IncrementalDecoder, getincrementaldecoder
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Final

END: Final = 1 << 17
"""Characters at each end of a log that are kept."""
MIDDLE: Final = 1 << 16
"""Characters between the ends that are kept."""
MAX_LOG_BYTES: Final = 64 << 20
"""Bytes of a log that are read."""
PIECE: Final = 1 << 15
"""Characters that are looked at together."""
BLOCK: Final = 1 << 16
"""Characters of a line after which it counts as several."""
AROUND: Final = (3, 12)
"""Lines kept before and after one that shows a failure or a step of a start."""
MARKERS: Final = (
    *("Error:", "Exception:", "Traceback (most", " ERROR ", "ERROR: ", "CRITICAL ", "Killed", "exit code"),
    *("exited with code", "core dumped", "Segmentation fault", "out of memory", "No space left"),
    *("server version ", "█  version ", "non-default args: ", " with config: model=", "startup complete"),
    *("Starting to load model", "Model loading took", "Available KV cache memory: ", "GPU KV cache size: "),
)
"""Texts for which the middle of a log is searched."""
_UTF16: Final = {BOM_UTF16_LE: "utf-16-le", BOM_UTF16_BE: "utf-16-be"}
GZIP: Final = b"\x1f\x8b"
"""First bytes of what gzip compressed."""
_PACKED: Final = {
    GZIP: "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7-Zip",
}
"""First bytes of compressed files, which rotated logs are, with the programs that write them."""
_SAMPLE: Final = 4096
_MARKED: Final = 0.2
_UNMARKED: Final = 0.5
"""Shares of zero bytes at the places of UTF-16, with its mark and without."""


@dataclass(frozen=True, slots=True)
class CondensedLog:
    """The lines of a log that are read further."""

    numbered: tuple[tuple[int, str], ...]
    """Numbers, counted from 1, and texts of the lines."""
    unread_lines: int
    """Lines that were only searched."""
    cut: bool = False
    """The log had more than ``MAX_LOG_BYTES``; the rest was not looked at."""

    packed: str = ""
    """The program that compressed the bytes, which are no text then; empty for a text."""

    @property
    def beginning(self) -> str:
        """The text of the first ``END`` characters, in whole lines."""
        sizes = accumulate(len(text) + 1 for _, text in self.numbered)
        within = takewhile(lambda each: each[1] <= END, zip(self.numbered, sizes, strict=True))
        return "\n".join(text for (_, text), _ in within)


class LogCondenser:
    """Takes a log in pieces."""

    def __init__(self) -> None:
        self._head: list[tuple[int, str]] = []
        self._head_size = 0
        self._middle: list[tuple[int, str]] = []
        self._middle_size = 0
        self._tail: deque[tuple[int, str]] = deque()
        self._tail_size = 0
        self._rest = ""
        self._line = 1
        self._unread = 0

    def feed(self, text: str) -> None:
        """Take the next piece of a log."""
        for at in range(0, len(text), PIECE):
            self._feed(text[at : at + PIECE])

    def _feed(self, text: str) -> None:
        text = self._rest + text
        # A line without an end in sight is taken as it is.
        endless = len(text) > BLOCK and "\n" not in text[-BLOCK:]
        end = len(text) if endless else text.rfind("\n") + 1
        block, self._rest = text[:end], text[end:]
        while block and self._head_size < END:
            size = END - self._head_size
            cut = len(block) if len(block) <= size else (block.find("\n", size) + 1 or len(block))
            self._head_size += cut
            self._head.extend(self._numbered(block[:cut]))
            block = block[cut:]
        if block:
            self._tail.append((self._line, block))
            self._tail_size += len(block)
            self._line += block.count("\n")
        while self._tail and self._tail_size - len(self._tail[0][1]) >= END:
            line, oldest = self._tail.popleft()
            self._tail_size -= len(oldest)
            self._search(line, oldest)

    def finish(self, *, cut: bool = False, packed: str = "") -> CondensedLog:
        """Return what is kept, in the order of the log."""
        if self._rest:
            self._tail.append((self._line, self._rest))
        tail = [each for line, block in self._tail for each in _lines(line, block)]
        return CondensedLog((*self._head, *self._middle, *tail), self._unread, cut, packed)

    def _numbered(self, block: str) -> Iterator[tuple[int, str]]:
        yield from _lines(self._line, block)
        self._line += block.count("\n")

    def _search(self, first: int, block: str) -> None:
        """Keep the lines around each marker in a part of the middle."""
        wanted: set[int] = set()
        if self._middle_size < MIDDLE and any(map(block.__contains__, MARKERS)):
            lines = block.split("\n")
            for at, text in enumerate(lines):
                if any(map(text.__contains__, MARKERS)):
                    wanted.update(range(max(0, at - AROUND[0]), min(len(lines), at + AROUND[1])))
            for at in sorted(wanted):
                self._middle.append((first + at, lines[at]))
                self._middle_size += len(lines[at]) + 1
                if self._middle_size >= MIDDLE:
                    break
        self._unread += max(0, block.count("\n") - len(wanted))


def condense(pieces: Iterable[bytes]) -> CondensedLog:
    """Return the lines of a log in bytes, whatever its encoding, that are read further."""
    decoder = LogDecoder()
    condenser = LogCondenser()
    left = MAX_LOG_BYTES
    for piece in pieces:
        condenser.feed(decoder.decode(piece[:left]))
        left -= len(piece)
        if left < 0:
            break
    condenser.feed(decoder.finish())
    return condenser.finish(cut=left < 0, packed=decoder.packed)


class LogDecoder:
    """Decodes the bytes of a log: UTF-8, or UTF-16 as PowerShell writes it, with or without its mark."""

    def __init__(self) -> None:
        self._first = b""
        self._decoder: IncrementalDecoder | None = None
        self.packed = ""
        """The program that compressed the bytes; empty for a text."""

    def decode(self, piece: bytes) -> str:
        """Return the text of the next piece; none of compressed bytes."""
        if self.packed:
            return ""
        if self._decoder is not None:
            return self._decoder.decode(piece)
        self._first += piece
        return "" if len(self._first) < _SAMPLE else self._begin(final=False)

    def finish(self) -> str:
        """Return what is left when all pieces have been given."""
        if self.packed:
            return ""
        return self._begin(final=True) if self._decoder is None else self._decoder.decode(b"", final=True)

    def _begin(self, *, final: bool) -> str:
        self.packed = next((name for mark, name in _PACKED.items() if self._first.startswith(mark)), "")
        if self.packed:
            return ""
        name, mark = encoding_of(self._first)
        self._decoder = getincrementaldecoder(name)("replace")
        return self._decoder.decode(self._first[mark:], final)


def encoding_of(sample: bytes) -> tuple[str, int]:
    """Return the encoding of a text by its first bytes, and the bytes of its mark."""
    even, odd = sample[0:_SAMPLE:2], sample[1:_SAMPLE:2]
    marked = {name for mark, name in _UTF16.items() if sample.startswith(mark)}
    # Half of the bytes of a log in UTF-16 are zero; one byte out of place is not enough.
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        share = zeros.count(0) / len(zeros) if zeros else 0.0
        if share > (_MARKED if name in marked else _UNMARKED) and others.count(0) <= len(others) // 10:
            return name, 2 if name in marked else 0
    return "utf-8", len(BOM_UTF8) if sample.startswith(BOM_UTF8) else 0


def _lines(first: int, block: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a block of whole lines."""
    texts = block.split("\n")
    if texts and not texts[-1]:
        texts.pop()
    yield from enumerate(texts, first)
