"""Where a model's config comes from: the Hub, or the snapshot bundled with the package."""
