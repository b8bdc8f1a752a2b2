"""Fields of a config: other names, defaults of the class of the config, and what they say of pooling."""
