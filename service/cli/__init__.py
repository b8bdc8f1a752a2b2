"""The command line, `dryserve`: one module for each command, put together in `main`."""
