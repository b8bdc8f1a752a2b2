"""HTTP: routes, middleware, authorization, and problems (RFC 9457). Use cases are in `application`."""
