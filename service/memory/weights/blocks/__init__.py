"""The modules that the engine builds for layers, encoders and the two ends of a model."""
