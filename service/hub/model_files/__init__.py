"""What a repository holds of a model: its id, the files that may be asked for, its config and metadata."""
