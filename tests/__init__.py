"""Tests. They run alike in every shell: what the environment tells the service is taken away first."""

from tests.environment import clear_environment

clear_environment()
