"""What travels over HTTP: inputs refuse what they do not know, outputs leave nothing out."""
