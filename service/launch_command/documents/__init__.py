"""YAML and JSON documents in a text: found among other lines, completed, parsed within bounds."""
