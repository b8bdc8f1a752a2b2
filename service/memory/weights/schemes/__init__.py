"""How a checkpoint stores each module: the scheme it names, and the bytes of a module in it."""
