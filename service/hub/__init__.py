"""Fetches a model's config from the Hugging Face Hub, or from the snapshot bundled with the package."""
