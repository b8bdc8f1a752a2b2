"""The page: a plan as HTML and SVG. Values go one way, from a plan to a screen to markup; no HTTP here."""
