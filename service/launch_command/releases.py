"""The release that a container image or a Python requirement names."""

import re
from typing import Final

from service.launch_command.launch import LaunchRelease

OWN_IMAGES: Final = re.compile(
    r"(?:[a-z0-9.-]{1,120}(?::[0-9]{1,5})?/){0,6}vllm/vllm-(?:openai|tpu|cpu)(?:-[a-z0-9]{1,32}){0,4}"
    r"(?::(?P<tag>[A-Za-z0-9_.-]{1,128}))?(?:@sha256:[0-9a-f]{6,64})?"
)
"""Images that the makers of the engine publish, from any registry; the tag is the engine's release."""
_TAG: Final = re.compile(
    r"v?(?P<version>[0-9]{1,3}\.[0-9]{1,3}(?:\.[0-9]{1,3})?(?:\.post[0-9]{1,3}|\.?rc[0-9]{1,3})?)"
    r"(?:[-_.+].{0,120})?"
)
_REQUIREMENT: Final = re.compile(
    r"vllm(?:\[[A-Za-z0-9_,. -]{0,80}\])?(?:==|@)v?"
    r"(?P<version>[0-9]{1,3}(?:\.[0-9]{1,4}){1,3}(?:\.?(?:post|rc|dev)[0-9]{1,6})?)(?:\+[A-Za-z0-9.]{1,40})?"
)
_NAMES_ENGINE: Final = re.compile(r"vllm", re.IGNORECASE)
NOT_SAID: Final = LaunchRelease(None, "the text does not say which release it is")


def release_of(image: str | None) -> LaunchRelease:
    """Return the release of an image such as ``vllm/vllm-openai:v0.19.0`` or of ``vllm==0.19.0``.

    Tags such as ``latest`` name no release, and neither do the tags of images that others publish.
    """
    if image is None:
        return NOT_SAID
    requirement = _REQUIREMENT.fullmatch(image)
    if requirement is not None:
        return LaunchRelease(requirement["version"], f"the requirement {image}")
    own = OWN_IMAGES.fullmatch(image)
    if own is None:
        return LaunchRelease(None, "the image is not one of vLLM's own, so its tag does not say the release")
    tag = own["tag"]
    if tag is None:
        return LaunchRelease(None, "the image has no tag")
    version = _TAG.fullmatch(tag)
    if version is None:
        return LaunchRelease(None, f"the image's tag {tag!r} moves from release to release")
    return LaunchRelease(version["version"], f"the image's tag {tag}")


def is_engine_image(image: str) -> bool:
    """Whether an image holds the engine, as far as its name says."""
    return _NAMES_ENGINE.search(image) is not None


def is_requirement(word: str) -> bool:
    """Whether a word asks for one release of the Python package."""
    return _REQUIREMENT.fullmatch(word) is not None
