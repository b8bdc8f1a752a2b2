"""How fast a start serves: bytes and operations of one step, and the time they take, within an interval."""
