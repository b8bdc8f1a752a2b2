"""What an engine's startup log says: lines to facts, whatever the lines hold."""
