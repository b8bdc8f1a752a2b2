"""What the command line can do beside planning and serving."""
