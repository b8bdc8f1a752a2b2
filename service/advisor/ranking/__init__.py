"""Which candidate is best for the objective of a request."""
