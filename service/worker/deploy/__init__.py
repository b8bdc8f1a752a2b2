"""Ways to start a worker: on the service's own host, by docker, by Kubernetes."""
