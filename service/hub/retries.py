"""Retries of the hub's room: stamina, without its log line for each retry.

By default stamina logs each retry with all arguments, and these contain what a caller requested.
"""

import stamina

stamina.instrumentation.set_on_retry_hooks(())

retry = stamina.retry
