"""One request to the Hub: its address, credential, limits, redirects and errors."""
