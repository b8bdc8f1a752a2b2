"""Many strings at once, each looked for at the beginning of a name or anywhere in it."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from service.architecture.uniform_lists import EntryForm
from service.architecture.weight_schemes import Names

PLAIN: Final = EntryForm()


@dataclass(frozen=True, eq=False)
class Fragments:
    """Strings, of which there may be 250,000: parts of a name are looked up, not each string in the name."""

    texts: frozenset[str]
    """As they are written."""
    entries: Collection[str]
    """The same in the order of the list, in which they are read faster."""
    form: EntryForm = PLAIN

    @classmethod
    def of(cls, entries: Collection[str], form: EntryForm = PLAIN) -> Self:
        """Return strings that are written in some form."""
        return cls(frozenset(entries), entries, form)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the strings between their signs, each once, in ascending order."""
        signs = len(self.form.before) + len(self.form.after)
        entries = self.entries
        known = entries.lengths if isinstance(entries, Names) else set(map(len, entries))
        return tuple(sorted(length - signs for length in known))

    def begin(self, name: str, least: int = 0) -> bool:
        """Whether a name begins with one of the strings that have at least so many characters."""
        form, texts = self.form, self.texts
        written, before, after = form.text(name), form.before, form.after
        if not written.startswith(form.head):
            return False
        least = len(form.text(name[:least])) if form.escaped else least
        for length in self._between(least, len(written)):
            if before + written[:length] + after in texts:
                return True
        return False

    def occur_in(self, name: str) -> bool:
        """Whether one of the strings is anywhere in a name."""
        form, texts = self.form, self.texts
        if len(texts) <= len(name) and form == PLAIN:
            return any(text in name for text in texts)
        written, before, after = form.text(name), form.before, form.after
        begin = written.find(form.head)
        while begin >= 0:
            for length in self._between(0, len(written) - begin):
                if before + written[begin : begin + length] + after in texts:
                    return True
            begin = written.find(form.head, begin + 1) if begin < len(written) else -1
        return False

    def _between(self, least: int, most: int) -> tuple[int, ...]:
        lengths = self.lengths
        if not lengths or lengths[0] > most:
            return ()
        return lengths[bisect_left(lengths, least) : bisect_right(lengths, most)]
