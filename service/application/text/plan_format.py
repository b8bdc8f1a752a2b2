"""The forms in which a plan is written."""

from typing import Literal

CommandFormat = Literal["command", "docker", "kubernetes", "compose"]
TextFormat = Literal["table", CommandFormat]
Format = Literal["json", TextFormat]
"""What a plan can be written as: JSON, a table, or a command for a shell, Docker, Kubernetes or Compose."""
