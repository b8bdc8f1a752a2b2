"""What a plan costs beside a route that does nothing."""
