# syntax=docker/dockerfile:1
FROM python:3.13-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN ["python", "-m", "venv", "/opt/dryserve"]
WORKDIR /src
# Everything in the lock, checked by hash, before the code, so that a change of code downloads nothing anew.
COPY requirements.lock ./
RUN ["pip", "wheel", "--require-hashes", "--requirement", "requirements.lock", "--wheel-dir", "/wheels"]
COPY pyproject.toml README.md LICENSE ./
COPY service service
# From those wheels alone, and only what the service itself needs: what tests and linters need stays behind.
RUN ["/opt/dryserve/bin/pip", "install", "--no-index", "--find-links", "/wheels", "."]

FROM python:3.13-slim
LABEL org.opencontainers.image.title="dryserve" \
      org.opencontainers.image.description="Dry-run vllm serve: what the engine would do on each GPU type, without a GPU" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN ["useradd", "--system", "--uid", "10001", "--no-create-home", "--shell", "/usr/sbin/nologin", "dryserve"]
# What the Hub answered and what probes measured is kept here; mount a volume to keep it longer than the container.
RUN ["install", "--directory", "--owner", "10001", "--group", "10001", "--mode", "700", "/var/lib/dryserve"]
COPY --from=build /opt/dryserve /opt/dryserve
ENV PATH="/opt/dryserve/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DRYSERVE_HOST=0.0.0.0 \
    DRYSERVE_PORT=8000 \
    DRYSERVE_CACHE=/var/lib/dryserve/hub.sqlite3 \
    DRYSERVE_DATABASE_URL=sqlite:////var/lib/dryserve/dryserve.db
VOLUME /var/lib/dryserve
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"DRYSERVE_PORT\"]}/livez', timeout=2)"]
ENTRYPOINT ["dryserve"]
CMD ["serve"]
