"""What the engine decides before it looks at memory: flags resolved, checkpoints and layouts checked."""
