"""Returns of a remedy what the start that failed can do and has not done."""

from service.explanation.remedies.given_already import without_given
from service.explanation.remedies.moot_alternatives import without_moot
from service.explanation.remedies.start_facts import facts_of
from service.explanation.remedies.supported_backends import with_supported
from service.explanation.remedies.unmet_conditions import without_unmet
from service.startup_log.log import StartupLog


def fitting_remedy(remedy: str, log: StartupLog) -> str:
    """Return a remedy without what this start cannot do, and without what was done already in vain.

    Comparisons, each with the same facts of the text: what an alternative needs (a platform, a release, a
    container, a GPU on which a backend runs), what it changes (a size that is the least one, a flag that is
    not set), and what it does (a flag or a variable that is set, an action that was tried).
    """
    facts = facts_of(log)
    return without_given(without_moot(without_unmet(with_supported(remedy, facts), facts), facts), facts)
