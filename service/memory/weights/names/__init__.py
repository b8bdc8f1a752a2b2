"""What the engine calls a module, and which entries of a checkpoint's lists name it."""
