"""Schemas of requests and answers: inputs refuse unknown members, outputs have all of their members."""
