"""EngineReleases: the releases of an engine beside vLLM, and what each does, from dated data."""

from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar

from packaging.version import InvalidVersion, Version

from service.bundled_toml import read_toml
from service.engines.dated import read_timelines, record_at
from service.nearest_names import quoted


class DatedRules(Protocol):
    """What a release does, with the newest release that was read."""

    @property
    def newest(self) -> str:
        """The newest release that was read."""


Rules = TypeVar("Rules", bound=DatedRules)


class UnknownEngineRelease(ValueError):
    """A text names no release of the engine that is modelled."""


@dataclass(frozen=True)
class EngineReleases(Generic[Rules]):
    """The releases of one engine; ``releases.toml`` of its package dates what they do."""

    engine: str
    """The engine's name in messages."""
    package: str
    type: type[Rules]
    oldest: Version

    def named(self, name: str | None) -> tuple[str, Rules]:
        """Return a release by its name, or the newest one; and its name.

        Raises:
            UnknownEngineRelease: the text is no version, or an older one.
        """
        if name is None:
            newest = self.at(self.oldest).newest
            return newest, self.at(Version(newest))
        try:
            version = Version(name.strip())
        except InvalidVersion as error:
            raise self._unknown(name) from error
        # A candidate such as 0.5.0rc2 behaves as the release that it precedes.
        release = Version(version.base_version)
        if release < self.oldest:
            raise self._unknown(name)
        return str(version), self.at(release)

    @cache  # noqa: B019 - there is one object of each engine
    def at(self, release: Version) -> Rules:
        """Return what a release does.

        Raises:
            LookupError: the release is older than the dated data.
        """
        table = read_toml(self.package, "releases.toml")
        return record_at(self.type, read_timelines(self.engine, table, self.type), release)

    def _unknown(self, given: str) -> UnknownEngineRelease:
        return UnknownEngineRelease(
            f"{quoted(given)} is no release of {self.engine} that is modelled: {self.oldest} and later, to "
            f"{self.at(self.oldest).newest}"
        )
