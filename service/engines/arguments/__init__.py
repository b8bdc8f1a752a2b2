"""The arguments and environment variables of every release, and what each can change in a plan."""
