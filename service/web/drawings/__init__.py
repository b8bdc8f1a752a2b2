"""Plans, models, releases and speed as SVG."""
